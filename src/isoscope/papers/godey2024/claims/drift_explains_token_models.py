"""Claim 4: drift and cosine go together over the layers of subword models."""

from __future__ import annotations

import pandas as pd

from isoscope.core.claim import Verdict, claim
from isoscope.statistics.drift_claims import pooled


@claim(
    number=4,
    paper="godey2024",
    statement="Drift and cosine go together over the layers of subword models (GPT-2 excepted).",
    refuted_by="a pooled correlation of differences between layers that lies surely below 0",
    needs="three models of subwords with twelve layers or more: `isoscope measure BERT ROBERTA T5 --out RUN`",
)
def drift_explains_token_models(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """Spearman's ρ of first differences, Student's interval over models."""
    return pooled(table, "token", without=["GPT-2"])
