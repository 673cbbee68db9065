"""The mean cosine over pairs from the same item."""

from __future__ import annotations

import numpy as np

from isoscope.core.arrays import Floats
from isoscope.core.number import POPULATION, Number
from isoscope.statistics.cloud import Cloud
from isoscope.statistics.groups import Totals
from isoscope.statistics.metric import metric


def _estimate(t: Totals) -> Floats:
    return np.asarray((t.within - t.alive) / (t.pairs - t.alive))


@metric(reads=("directions",), wants=("groups",), range=(-1.0, 1.0), interval_about=POPULATION, title="Mean cosine within items")
def within_cosine(cloud: Cloud) -> Number:
    """The average cosine of two different points of the same document; above `between_cosine` by what a document shares.

    ``(Σ_item‖S_item‖² − n) / (Σn_item² − n)`` with S_item an item's Σu. Undefined where every item is one point.

    Range −1 to 1. Null 0, with standard deviation √(2/(d·pairs)).
    """
    if cloud.groups is None:
        return Number(np.nan, n=cloud.moments.alive, d=cloud.d, note="groups of items were not kept")
    t = cloud.groups.totals
    pairs = float(t.pairs - t.alive)
    n = cloud.moments.alive
    if pairs <= 0:
        return Number(np.nan, n=n, d=cloud.d, note="every item is one point")
    low, high = cloud.grouped(_estimate, bounds=(-1.0, 1.0))
    return Number(min(float(_estimate(t)), 1.0), n=n, d=cloud.d, low=low, high=high, null=0.0, null_sd=(2 / (cloud.d * pairs)) ** 0.5)
