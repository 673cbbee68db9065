"""The mean cosine over all pairs."""

from __future__ import annotations

import numpy as np

from isoscope.core.arrays import Floats
from isoscope.core.number import THIS_N, Number
from isoscope.statistics.cloud import Cloud
from isoscope.statistics.groups import Totals
from isoscope.statistics.metric import metric


def _estimate(t: Totals) -> Floats:
    return np.asarray(((t.directions**2).sum(-1) - t.alive) / (t.alive * (t.alive - 1)))


@metric(reads=("directions",), wants=("groups",), range=(-1.0, 1.0), interval_about=THIS_N, title="Mean cosine")
def mean_cosine(cloud: Cloud) -> Number:
    """The average cosine of two different points: 0 where directions are spread evenly, 1 where all agree.

    ``(‖Σu‖² − n) / (n(n − 1))`` with u = x/‖x‖: exact, over all pairs i ≠ j. Zero vectors have no direction and are left out.

    Range −1/(n−1) to 1. Null 0, with standard deviation √(2/(d·n(n−1))): that of the *average*; one pair has 1/√d.

    Godey, de la Clergerie and Sagot (2024); Ethayarajh (2019).

    >>> mean_cosine([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    0.3333333333333333
    """
    m, d = cloud.moments, cloud.d
    n = m.alive
    if n < 2:
        return Number(np.nan, n=n, d=d, note="fewer than two points have a direction")
    value = min((float(m.directions @ m.directions) - n) / (n * (n - 1)), 1.0)  # rounding may go above
    low, high = cloud.grouped(_estimate, bounds=(-1.0, 1.0))
    return Number(value, n=n, d=d, low=low, high=high, null=0.0, null_sd=(2 / (d * n * (n - 1))) ** 0.5)
