"""Claim 4: drift and cosine go together over the layers of vision Transformers."""

from __future__ import annotations

import pandas as pd

from isoscope.core.claim import Verdict, claim
from isoscope.statistics.drift_claims import pooled


@claim(
    number=4,
    paper="godey2024",
    statement="Drift and cosine go together over the layers of vision Transformers.",
    refuted_by="a pooled correlation of differences between layers that lies surely below 0",
    needs="three vision Transformers with twelve layers or more: `isoscope measure VIT BEIT DEIT --data IMAGES --out RUN`",
)
def drift_explains_vision_models(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """Spearman's ρ of first differences, Student's interval over models."""
    return pooled(table, "vision")
