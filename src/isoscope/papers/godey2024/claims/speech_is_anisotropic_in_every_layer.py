"""Claim 2: speech models have a cosine of 0.2 or more in every layer."""

from __future__ import annotations

import pandas as pd

from isoscope.core.claim import Verdict, claim
from isoscope.statistics.deciding import Case
from isoscope.statistics.evidence import cosines, lowest
from isoscope.statistics.verdicts import judged

LEVEL = 0.2


@claim(
    number=2,
    paper="godey2024",
    statement="Speech models are anisotropic in every layer: their cosine is 0.2 or above throughout.",
    refuted_by="a speech model with a layer whose cosine lies surely below 0.2",
    needs="the hidden states of three speech models or more: `isoscope measure WAV2VEC HUBERT WHISPER --data CLIPS --out RUN`",
)
def speech_is_anisotropic_in_every_layer(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The least cosine over the layers of each model."""
    cases = {name: Case(lowest(rows), (LEVEL,)) for name, rows in cosines(table, series, ["speech"]).items()}
    return judged(cases, measure="the least cosine over the layers", unit="speech model")
