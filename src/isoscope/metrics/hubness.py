"""Hubness."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from isoscope.core.errors import IsoscopeError
from isoscope.core.number import Number
from isoscope.statistics.cloud import Cloud
from isoscope.statistics.kernel import Floats
from isoscope.statistics.metric import metric
from isoscope.statistics.neighbours import neighbours

K = 10
"""Neighbours by which points are counted."""
SPARE = 3 * K
"""Neighbours that are looked at where some are left out."""
GROUPS = 32
DRAWS = 3
STEP = 4
"""Nulls are drawn at powers of two to a quarter, so that layers that differ in their duplicates share one."""


def _occurrences(indices: np.ndarray) -> np.ndarray:
    """(n,) in how many rows each point stands."""
    return np.bincount(indices.ravel(), minlength=len(indices))


def _skewness(counts: np.ndarray) -> float:
    """The third central moment over the cube of the standard deviation; 0 where all are equal."""
    away = counts - counts.mean()
    variance = float((away**2).mean())
    return float((away**3).mean()) / variance**1.5 if variance > 0 else 0.0


def _left_out(indices: np.ndarray, gone: np.ndarray) -> float:
    """The skewness without the points that are gone, the next neighbours having come up in their place."""
    rows = indices[~gone]
    there = ~gone[rows]
    counted = rows[there & (np.cumsum(there, axis=1) <= K)]
    return _skewness(np.bincount(counted, minlength=len(indices))[~gone])


def _interval(value: float, indices: np.ndarray, unit: np.ndarray) -> tuple[float, float]:
    """A 95 % interval by the delete-a-group jackknife over documents; NaN with fewer than three groups."""
    from scipy.special import stdtrit

    group = np.unique(unit % np.uint64(GROUPS), return_inverse=True)[1]
    sizes = np.bincount(group).astype(np.float64)
    if len(sizes) < 3:
        return np.nan, np.nan
    left_out = np.array([_left_out(indices, group == g) for g in range(len(sizes))])
    variance = float(((left_out - left_out.mean()) ** 2).sum()) * (len(sizes) - 1) / len(sizes)
    half = float(stdtrit(sizes.sum() ** 2 / (sizes**2).sum() - 1, 0.975)) * variance**0.5
    return value - half, value + half


@lru_cache(maxsize=64)
def _isotropic(n: int, d: int) -> Floats:
    """(DRAWS,) the hubness of isotropic Gaussian clouds of n points."""
    rng = np.random.default_rng(0)
    draws = (rng.standard_normal((n, d), dtype=np.float32) for _ in range(DRAWS))
    return np.array([_skewness(_occurrences(neighbours(points, K).indices)) for points in draws])


@metric(reads=("neighbours",), range=(-np.inf, np.inf), title="Hubness", on_request=True)
def hubness(cloud: Cloud) -> Number:
    """Whether a few points are among the nearest neighbours of very many others: 0 where all are about equally often, 1 and more with hubs.

    The skewness ``E(N − 10)³/sd(N)³`` of N, the number of points of the sample that have a point among their 10 nearest neighbours.

    Range −∞ to ∞. Null: its mean over isotropic Gaussian clouds of this d and of this n to within a tenth; it grows with d, since
    hubs come with dimension alone. The note has the largest N, and how many duplicates were left out.

    Radovanović, Nanopoulos and Ivanović (2010).
    """
    try:
        n = len(cloud.neighbours(K).kept)
    except IsoscopeError as error:
        return Number(np.nan, n=cloud.n, d=cloud.d, note=str(error))
    found = cloud.neighbours(min(SPARE, n - 1))
    counts = _occurrences(found.indices[:, :K])
    value = _skewness(counts)
    low, high = _interval(value, found.indices, cloud.drawn.unit[found.kept])
    nearby = max(K + 1, round(2 ** (round(STEP * np.log2(n)) / STEP)))
    chance = _isotropic(nearby, cloud.d)
    note = f"the largest hub is a neighbour of {counts.max() / n:.1%} of {n} points"
    if found.duplicates:
        note += f", {found.duplicates} duplicates left out"
    return Number(value, n=n, d=cloud.d, low=low, high=high, null=float(chance.mean()), null_sd=float(chance.std(ddof=1)), note=note)
