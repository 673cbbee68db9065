"""Claim 2: almost all vision Transformers have an anisotropic layer."""

from __future__ import annotations

import pandas as pd

from isoscope.core.claim import Verdict, claim
from isoscope.statistics.deciding import Case, most
from isoscope.statistics.evidence import cosines, highest, thresholds
from isoscope.statistics.verdicts import judged


@claim(
    number=2,
    paper="godey2024",
    statement="Almost all vision Transformers have an anisotropic layer.",
    refuted_by="surely fewer than half of the vision Transformers having one",
    needs="the hidden states of six vision Transformers or more: `isoscope measure VIT BEIT DEIT MIT … --data IMAGES --out RUN`",
)
def most_vision_models_have_an_anisotropic_layer(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The greatest cosine over the layers of each model, held against all three thresholds."""
    cases = {name: Case(highest(rows), thresholds(rows)) for name, rows in cosines(table, series, ["vision"]).items()}
    return judged(cases, most, measure="the greatest cosine over the layers", unit="vision Transformer")
