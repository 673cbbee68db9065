"""The spread of scores within rows."""

from __future__ import annotations

import numpy as np

from isoscope.core.number import POPULATION, Number
from isoscope.statistics.attention_cloud import AttentionCloud
from isoscope.statistics.metric import metric


@metric(reads=("attention",), range=(0.0, np.inf), interval_about=POPULATION, title="Score spread within rows", at_least=1)
def score_row_sd(cloud: AttentionCloud) -> Number:
    """How far the scores of one row lie apart before softmax: only this makes attention sharp.

    ``√(mean over rows of the variance of the row's scores)``. What all scores of a row share cancels in softmax and is not in it.

    Range 0 to ∞. Null 0, that of uniform rows; while it is small, a row's entropy is ln(open) − sd²/2.
    """
    value, low, high = cloud.of_rows(lambda t: np.sqrt(t["variance"] / t["rows"]), (0.0, np.inf))
    return Number(value, n=cloud.n, d=cloud.d, low=low, high=high, null=0.0)
