"""The spread of all scores."""

from __future__ import annotations

import numpy as np

from isoscope.core.number import POPULATION, Number
from isoscope.statistics.attention_cloud import AttentionCloud
from isoscope.statistics.metric import metric


@metric(reads=("attention",), range=(0.0, np.inf), interval_about=POPULATION, title="Score spread", at_least=1)
def score_sd(cloud: AttentionCloud) -> Number:
    """The standard deviation of all scores before softmax, within rows and between them.

    Range 0 to ∞. Null 0, that of uniform rows. Only the part within rows (`score_row_sd`) reaches the attention.
    """
    value, low, high = cloud.of_rows(
        lambda t: np.sqrt(np.maximum(t["score2"] / t["open"] - (t["score"] / t["open"]) ** 2, 0.0)), (0.0, np.inf)
    )
    return Number(value, n=cloud.n, d=cloud.d, low=low, high=high, null=0.0)
