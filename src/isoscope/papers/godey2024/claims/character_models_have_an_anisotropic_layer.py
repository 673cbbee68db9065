"""Claim 1: character-level models have an anisotropic layer too."""

from __future__ import annotations

import pandas as pd

from isoscope.core.claim import Verdict, claim
from isoscope.statistics.deciding import Case
from isoscope.statistics.evidence import cosines, highest, thresholds
from isoscope.statistics.verdicts import judged


@claim(
    number=1,
    paper="godey2024",
    statement="Character-level models have an anisotropic layer too, so that rare tokens are not the cause.",
    refuted_by="a character-level model whose cosine lies surely below the threshold in every layer",
    needs="the hidden states of three character-level models or more: `isoscope measure CANINE BYT5 MANTA --out RUN`",
)
def character_models_have_an_anisotropic_layer(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The greatest cosine over the layers of each model, held against all three thresholds."""
    cases = {name: Case(highest(rows), thresholds(rows)) for name, rows in cosines(table, series, ["character"]).items()}
    return judged(cases, measure="the greatest cosine over the layers", unit="character-level model")
