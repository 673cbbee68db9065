"""Claim 1: every Transformer has an anisotropic layer."""

from __future__ import annotations

import pandas as pd

from isoscope.core.claim import Verdict, claim
from isoscope.statistics.deciding import Case
from isoscope.statistics.evidence import cosines, highest, thresholds
from isoscope.statistics.verdicts import judged


@claim(
    number=1,
    paper="godey2024",
    statement="Every Transformer has an anisotropic layer, whatever it reads.",
    refuted_by="a trained Transformer whose cosine lies surely below the threshold in every layer",
    needs="the hidden states of three trained Transformers or more: `isoscope measure MODEL MODEL MODEL --out RUN`",
)
def every_transformer_has_an_anisotropic_layer(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The greatest cosine over the layers of each model, held against all three thresholds."""
    cases = {name: Case(highest(rows), thresholds(rows)) for name, rows in cosines(table, series).items()}
    return judged(cases, measure="the greatest cosine over the layers")
