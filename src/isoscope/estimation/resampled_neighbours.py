"""Neighbours among a part of the points, for intervals, and among isotropic points, for nulls."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from isoscope.core.errors import IsoscopeError
from isoscope.core.numerics import Floats
from isoscope.estimation.neighbours import Neighbours, neighbours
from isoscope.statistics.sample import mix

GROUPS = 20
"""Groups of items that are left out in turn."""
SPARE = 14
"""When a group is left out, other points replace lost neighbours: twice as many neighbours are known, and this many more."""
DRAWS = 8
"""Isotropic clouds drawn for a null."""
WORK = 4096**2 * 1024
"""Fewer clouds are drawn if n²d is larger than this, but at least one."""
MOST = 20
"""Neighbours that are found for each isotropic point."""
SHARED, OTHERS = 2, 4
"""Neighbours that a shared search answers for, and how many more it knows of each point."""
MOST_UNKNOWN = 12
"""Of more points than this, a search among the chosen ones is quicker than looking for the neighbours of each."""


@dataclass(frozen=True)
class Among:
    """The nearest neighbours of chosen points among the chosen points, (m, k); points with too few known neighbours are left out."""

    distances: Floats
    indices: np.ndarray
    """Their numbers among the chosen points."""
    size: int
    """How many points were chosen."""

    @property
    def complete(self) -> bool:
        """Whether enough neighbours of every chosen point are known."""
        return len(self.indices) == self.size


def among(found: Neighbours, chosen: np.ndarray, k: int) -> Among:
    """Return the k nearest of chosen distinct points among the chosen, from neighbours that were found among all."""
    distances, indices = _chosen_first(found, chosen, k)
    known = (indices >= 0).all(1) & (indices.shape[1] == k)
    return Among(distances[known], indices[known], len(chosen))


def _chosen_first(found: Neighbours, chosen: np.ndarray, k: int) -> tuple[Floats, np.ndarray]:
    """Return the distances and the numbers of the k nearest chosen neighbours of chosen points; numbers are −1 if fewer are known."""
    number = np.full(len(found.kept), -1)
    number[chosen] = np.arange(len(chosen))
    indices = number[found.indices[chosen]]
    # Chosen neighbours come first, and a stable sort leaves them in the order of their distances.
    order = np.argsort(indices < 0, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(found.distances[chosen], order, 1), np.take_along_axis(indices, order, 1)


class SharedSearch:
    """One search among all points (m, d) of a site, which answers for the parts of them that token policies choose."""

    def __init__(self, points: np.ndarray) -> None:
        self.points = points

    @cached_property
    def _found(self) -> Neighbours | None:
        try:
            return neighbours(self.points, SHARED, reach=SHARED + OTHERS)
        except IsoscopeError:  # too few distinct points; the search among some of them says how many these are
            return None

    def among(self, rows: np.ndarray, k: int) -> Neighbours:
        """Return k nearest neighbours, `SHARED` at most, of each distinct point of some rows: the same as a search among these rows."""
        return self._derive(self._found, rows, k) or neighbours(self.points[rows], k)

    def _derive(self, found: Neighbours | None, rows: np.ndarray, k: int) -> Neighbours | None:
        """Return the neighbours among some rows from those among all, or None if a search takes less or might differ."""
        if found is None:
            return None
        chosen, first, owner = np.unique(found.owner[rows], return_index=True, return_inverse=True)
        # Equal points go by the first of them. If that is not among the rows, points have another order, which decides between ties.
        if len(chosen) <= k or (np.diff(first) < 0).any():
            return None
        distances, indices = _chosen_first(found, chosen, k)
        unknown = np.flatnonzero((indices < 0).any(1))
        if len(unknown) > MOST_UNKNOWN:
            return None
        points = self.points[rows[first]].astype(np.float64) if len(unknown) else self.points
        for i in unknown:
            squares = ((points - points[i]) ** 2).sum(1)
            squares[i] = np.inf
            indices[i] = np.argsort(squares, kind="stable")[:k]
            distances[i] = np.sqrt(squares[indices[i]])
        return Neighbours(distances, indices, first, owner, found.again)


def jackknife_error(found: Neighbours, k: int, fit: Callable[[Among], float], unit: np.ndarray) -> tuple[float, float]:
    """Return the standard error of a fit to k neighbours, by leaving out groups of items in turn, and its degrees of freedom.

    Each fit takes the neighbours that are nearest without the group. This is valid for neighbourhoods of many points, which all depend on
    each other in high dimension. It is slightly conservative. NaN with fewer than three effective groups.

    Args:
        found: the neighbours of all points, some more than k of each.
        k: how many the fit reads.
        fit: the number.
        unit: (m,) the hash of each given point's item.
    """
    width = 2 * k + SPARE
    found = replace(found, distances=found.distances[:, :width], indices=found.indices[:, :width])
    own = unit[found.kept]
    items = np.unique(own)
    # Ranks of hashes instead of hashes: the groups then hold equally many items to within one, and no order of reading changes them.
    group = (np.argsort(np.argsort(mix(items)))[np.searchsorted(items, own)]) % GROUPS
    sizes = np.bincount(group)
    effective = float(len(own) ** 2 / (sizes.astype(float) ** 2).sum())
    if effective < 3:
        return math.nan, math.nan
    values = np.array([fit(among(found, np.flatnonzero(group != g), k)) for g in range(len(sizes))])
    variance = float(((values - values.mean()) ** 2).sum()) * (1 - 1 / len(sizes))
    return variance**0.5, effective - 1


@dataclass(frozen=True)
class IsotropicCloud:
    """The neighbours in a cloud of isotropic Gaussian points; the points themselves would be most of a run's memory."""

    found: Neighbours
    length: float
    """The mean length of a centred point."""


def round_sample_size(n: int) -> int:
    """Return n to within 1.6 %, so that layers and policies that differ by a few points share their null.

    >>> round_sample_size(63), round_sample_size(4090)
    (63, 4096)
    """
    step = 1 << max(n.bit_length() - 6, 0)
    return (n + step // 2) // step * step


@lru_cache(maxsize=2)
def isotropic_clouds(n: int, d: int) -> list[IsotropicCloud]:
    """Return a few isotropic clouds of n points in d dimensions."""
    rng = np.random.default_rng([n, d])
    clouds = []
    for _ in range(max(1, min(DRAWS, int(DRAWS * WORK / (n * n * d))))):
        points = rng.standard_normal((n, d), dtype=np.float32)
        clouds.append(IsotropicCloud(neighbours(points, min(MOST, n - 1)), mean_length(points)))
        del points  # before the next are drawn: two clouds would double the peak
    return clouds


def mean_length(points: np.ndarray) -> float:
    """Return the mean length of a centred point.

    >>> mean_length(np.array([[3.0, 4.0], [-3.0, -4.0]]))
    5.0
    """
    centre = points.mean(0, dtype=np.float64)
    return float(np.mean([np.sqrt(((block - centre) ** 2).sum(1)).mean() for block in np.array_split(points, -(-len(points) // 1024))]))
