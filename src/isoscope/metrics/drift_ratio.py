"""The part of the squared length that the mean makes."""

from __future__ import annotations

import numpy as np

from isoscope.core.arrays import Floats
from isoscope.core.number import POPULATION, Number
from isoscope.statistics.chance import clipped_square
from isoscope.statistics.cloud import Cloud
from isoscope.statistics.groups import Totals
from isoscope.statistics.metric import metric


def _estimate(t: Totals) -> Floats:
    return np.asarray(t.squared_mean * t.n / t.norm2)


def _within_range(ratio: Floats) -> Floats:
    return np.clip(ratio, 0.0, 1.0)


@metric(reads=("sums",), wants=("groups",), range=(0.0, 1.0), interval_about=POPULATION, title="Drift ratio")
def drift_ratio(cloud: Cloud) -> Number:
    """How much of the points' squared length is their common mean: 0 for a centred cloud, 1 where all points are equal.

    ``‖μ‖² / E‖x‖²``, with ‖μ‖² estimated from pairs of points of different documents, as `drift_norm` does it: ‖x̄‖² itself would be too
    large by chance. An estimate below 0, which happens if μ is near 0, is given as 0.

    Range 0 to 1. Null: points in random directions. In about half of such clouds the number is 0; its mean is about 0.40·s and its standard
    deviation 0.59·s with s = √(2/(d·pairs)).

    >>> drift_ratio([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    0.3333333333333333
    """
    t, n, d = cloud.totals, cloud.n, cloud.d
    pairs = float(t.n**2 - t.raw_pairs)
    if not pairs > 0:
        return Number(np.nan, n=n, d=d, note="all points come from one item")
    if not t.norm2 > 0:
        return Number(np.nan, n=n, d=d, note="all points are zero")
    low, high = cloud.grouped(_estimate, bounds=(0.0, 1.0), transform=_within_range)
    chance = (2 / (d * pairs)) ** 0.5
    mean, sd = clipped_square(d, 1.0)
    return Number(float(_within_range(_estimate(t))), n=n, d=d, low=low, high=high, null=mean * chance, null_sd=sd * chance)
