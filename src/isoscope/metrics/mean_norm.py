"""The mean length of the points."""

from __future__ import annotations

import numpy as np

from isoscope.core.number import POPULATION, Number
from isoscope.statistics.cloud import Cloud
from isoscope.statistics.metric import metric


@metric(reads=("sums",), wants=("groups",), range=(0.0, np.inf), interval_about=POPULATION, title="Mean norm", at_least=1)
def mean_norm(cloud: Cloud) -> Number:
    """How long the points are on average: E‖x‖.

    Range 0 to ∞. It has no null: a length says nothing of directions.

    >>> mean_norm([[3.0, 4.0], [0.0, 1.0]])
    3.0
    """
    low, high = cloud.grouped(lambda t: np.asarray(t.norm / t.n), bounds=(0.0, np.inf))
    return Number(cloud.moments.norm / cloud.n, n=cloud.n, d=cloud.d, low=low, high=high).scaled_by(cloud.unit)
