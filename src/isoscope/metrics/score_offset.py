"""The mean of scores."""

from __future__ import annotations

import numpy as np

from isoscope.core.number import POPULATION, Number
from isoscope.statistics.attention_cloud import AttentionCloud
from isoscope.statistics.metric import metric


@metric(reads=("attention",), range=(-np.inf, np.inf), interval_about=POPULATION, title="Score offset", at_least=1)
def score_offset(cloud: AttentionCloud) -> Number:
    """The level of scores before softmax, which cancels in every row and makes no attention sharper.

    The mean over rows of the mean of the row's scores; about ⟨Q̄,K̄⟩ in logits. Range −∞ to ∞. Null 0.
    """
    value, low, high = cloud.of_rows(lambda t: t["mean"] / t["rows"], (-np.inf, np.inf))
    return Number(value, n=cloud.n, d=cloud.d, low=low, high=high, null=0.0)
