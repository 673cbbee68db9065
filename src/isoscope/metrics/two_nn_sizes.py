"""Intrinsic dimension over the size of the sample."""

from __future__ import annotations

import numpy as np

from isoscope.core.arrays import Floats
from isoscope.core.errors import IsoscopeError
from isoscope.statistics.cloud import Cloud
from isoscope.statistics.dimension import FACCO, FEWEST, rows, shared_error
from isoscope.statistics.metric import Curve, series
from isoscope.statistics.neighbours import Neighbours, neighbours
from isoscope.statistics.resampled_neighbours import among


@series(reads=("neighbours",), title="Intrinsic dimension over sample size", on_request=True)
def two_nn_sizes(cloud: Cloud) -> Curve:
    """Whether the intrinsic dimension has settled: `two_nn` of n/16, n/8, n/4, n/2 and of all n distinct points of the sample.

    x is the size, y the mean over the disjoint subsamples of that size, the weight their standard deviation (of the whole, which is one,
    its standard error). A curve that still rises at its right end says that the dimension is higher than any of its values. Empty where
    there are fewer than ten distinct points; sizes below ten are left out.

    Facco, d'Errico, Rodriguez and Laio (2017).
    """
    sample = cloud.drawn
    try:
        found = cloud.neighbours()
    except IsoscopeError:
        return np.zeros(0), np.zeros(0), np.zeros(0)
    n = len(found.kept)
    if n < FEWEST:
        return np.zeros(0), np.zeros(0), np.zeros(0)
    points = sample.points[found.kept]
    curve: list[tuple[float, float, float]] = []
    for parts in (16, 8, 4, 2):
        size = n // parts
        if size >= FEWEST:
            values = [FACCO.fit(_distances(found, points, np.arange(i * size, (i + 1) * size))).value for i in range(parts)]
            curve.append((size, float(np.mean(values)), float(np.std(values, ddof=1))))
    whole = rows(found, FACCO, sample.unit)
    fit = FACCO.fit(whole.distances)
    if np.isfinite(fit.value):
        curve.append((n, fit.value, float(np.nan_to_num(shared_error(fit.influence, whole)[0]))))
    x, y, weight = np.array([row for row in curve if np.isfinite(row).all()]).reshape(-1, 3).T
    return x, y, weight


def _distances(found: Neighbours, points: np.ndarray, chosen: np.ndarray) -> Floats:
    """To the two nearest among the chosen: from the neighbours that are known, where these are enough."""
    part = among(found, chosen, 2)
    return part.distances if part.complete else neighbours(points[chosen], 2).distances
