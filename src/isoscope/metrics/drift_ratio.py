"""The part of the squared length that the mean makes."""

from __future__ import annotations

import numpy as np

from isoscope.core.number import Number
from isoscope.statistics.cloud import Cloud
from isoscope.statistics.metric import metric


@metric(reads=("sums",), wants=("groups",), range=(0.0, 1.0), title="Drift ratio", at_least=1)
def drift_ratio(cloud: Cloud) -> Number:
    """How much of the points' squared length is their common mean: 0 for a centred cloud, 1 where all points are equal.

    ``‖x̄‖² / E‖x‖²``. Range 0 to 1. Null 1/n, with standard deviation √(2/d)/n.

    >>> drift_ratio([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    0.5
    """
    m, n, d = cloud.moments, cloud.n, cloud.d
    if not m.norm2 > 0:
        return Number(np.nan, n=n, d=d, note="all points are zero")
    low, high = cloud.grouped(lambda t: np.asarray((t.total**2).sum(-1) / t.n / t.norm2), bounds=(0.0, 1.0))
    value = min(float(m.mean @ m.mean) * n / m.norm2, 1.0)  # rounding may go above
    return Number(value, n=n, d=d, low=low, high=high, null=1 / n, null_sd=(2 / d) ** 0.5 / n)
