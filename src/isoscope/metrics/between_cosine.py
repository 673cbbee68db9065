"""The mean cosine over pairs from different items."""

from __future__ import annotations

import numpy as np

from isoscope.core.number import POPULATION, Number
from isoscope.statistics.cloud import Cloud
from isoscope.statistics.groups import between_cosine_of
from isoscope.statistics.metric import metric


@metric(reads=("directions",), wants=("groups",), range=(-1.0, 1.0), interval_about=POPULATION, title="Mean cosine between items")
def between_cosine(cloud: Cloud) -> Number:
    """The average cosine of two points drawn from different documents: what "two representations of the corpus" means.

    ``(‖Σu‖² − Σ_item‖S_item‖²) / (n² − Σn_item²)`` with S_item an item's Σu. Pairs within an item are left out, because they bias
    the average over all pairs by O(1/items). Of a matrix every row is an item, and this is `mean_cosine`.

    Range −1 to 1. Null 0, with standard deviation √(2/(d·pairs)).

    >>> between_cosine([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    0.3333333333333333
    """
    if cloud.groups is None:
        return Number(np.nan, n=cloud.moments.alive, d=cloud.d, note="groups of items were not kept")
    t = cloud.groups.totals
    pairs = float(t.alive**2 - t.pairs)
    n = cloud.moments.alive
    if pairs <= 0:
        return Number(np.nan, n=n, d=cloud.d, note="all points come from one item")
    low, high = cloud.grouped(between_cosine_of, bounds=(-1.0, 1.0))
    return Number(
        min(float(between_cosine_of(t)), 1.0), n=n, d=cloud.d, low=low, high=high, null=0.0, null_sd=(2 / (cloud.d * pairs)) ** 0.5
    )
