"""Local geometry: whether neighbourhoods are more isotropic than those of a Gaussian with the same mean and covariance.

A neighbourhood of any cloud is more isotropic than the whole: a Gaussian with a top share of 0.9 has neighbourhoods of 0.1. Only the
difference to a control that has the same covariance says something about the cloud.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from isoscope.core.errors import IsoscopeError
from isoscope.core.number import Number
from isoscope.core.numerics import Floats, margin
from isoscope.estimation.cloud import Cloud
from isoscope.estimation.controls import gaussians_by_document, shuffle_dimensions
from isoscope.estimation.neighbours import distinct
from isoscope.statistics.jackknife_groups import effective_groups
from isoscope.statistics.sample import Sample

NEIGHBOURS = 64
"""Points in a neighbourhood."""
CENTRES = 256
"""Points whose neighbourhoods are measured: the first distinct points of the sample, which is in the random order of hashes."""
MEASURES = ("share", "isoscore")
"""The two measures of the shape of a set of points, in the order of their arrays."""
ROWS = 4096
"""Rows that are held in float64 at a time."""
AT_ONCE = 16
"""Neighbourhoods that are held in float64 at a time."""
LARGE = 512
"""From this size on only the top eigenvalue is computed, by Lanczos: all of them would take most of the time."""
Measured = tuple[Floats, Floats]
"""A shape (2,) on average, and the influence (n, 2) of each point on it."""


@dataclass(frozen=True)
class DistinctPoints:
    """The distinct points of a sample about their mean, the first of each set of equal points, in the order of the sample."""

    points: np.ndarray
    """(n, d) float32, centred in float64."""
    owner: np.ndarray
    """(n,) the number of each one's document."""
    duplicates: int
    """Points left out because an equal point is included."""

    @classmethod
    def of(cls, sample: Sample) -> DistinctPoints:
        """Return the distinct points of a sample; refuse a sample with NaN or infinity."""
        # Centred in float64 and only then rounded: in float32 a common offset would take the digits that tell neighbours apart.
        firsts = distinct(sample.points)
        points, owner = sample.points[firsts], np.unique(sample.unit[firsts], return_inverse=True)[1]
        return cls((points - points.mean(0, dtype=np.float64)).astype(np.float32), owner, len(sample) - len(firsts))

    @property
    def n(self) -> int:
        """Distinct points."""
        return len(self.points)

    @property
    def effective(self) -> float:
        """The effective number of documents, n²/Σn_i²: less than their number if some have most of the points."""
        return effective_groups(np.bincount(self.owner).astype(np.float64))

    def standard_error(self, influence: Floats) -> Floats:
        """The standard error of a mean over documents whose points (n, …) have this influence on it, by the infinitesimal jackknife."""
        documents = int(self.owner.max()) + 1
        if documents < 3:
            return np.full(influence.shape[1:], np.nan)
        sums = np.zeros((documents, *influence.shape[1:]))
        np.add.at(sums, self.owner, influence)
        return np.asarray(np.sqrt((sums**2).sum(0) * documents / (documents - 1)))


@dataclass(frozen=True)
class Shape:
    """How sets of points are spread about their own means, and how much each point influences that."""

    values: Floats
    """(…, 2) the top share λ₁/Σλ and IsoScore (PR − 1)/(d − 1)."""
    influence: Floats
    """(…, m, 2) the derivative of the values by a point's weight 1/m."""


def shape(points: np.ndarray) -> Shape:
    """The shape of sets of points (…, m, d), from the smaller of the matrices of products, (m, m) and (d, d).

    >>> shape(np.array([[3.0, 0.0], [-3.0, 0.0], [0.0, 1.0], [0.0, -1.0]])).values.round(4).tolist()
    [0.9, 0.2195]
    """
    m, d = points.shape[-2:]
    z = points - points.mean(-2, keepdims=True, dtype=np.float64)
    lengths = (z**2).sum(-1)
    # Both matrices have the same eigenvalues above zero, and so the same trace and sum of squares.
    products = (z @ z.mT if m < d else z.mT @ z) / m
    top, vector = _top(products)
    if m < d:
        along, spread = m * top[..., None] * vector**2, m * (products**2).sum(-1)
    else:
        along, spread = (z @ vector[..., None])[..., 0] ** 2, ((z @ products) * z).sum(-1)
    trace, squares = np.trace(products, axis1=-2, axis2=-1), (products**2).sum((-2, -1))
    with np.errstate(invalid="ignore", divide="ignore"):  # equal points have no shape
        share, ratio, others = top / trace, trace / squares, d - 1 if d > 1 else np.nan
        values = np.stack([share, (trace * ratio - 1) / others], axis=-1)
        of_share = (along - share[..., None] * lengths) / trace[..., None]
        of_score = 2 * ratio[..., None] * (lengths - ratio[..., None] * spread) / others
    return Shape(values, np.stack([of_share, of_score], axis=-1))


def _top(matrix: Floats) -> tuple[Floats, Floats]:
    """The largest eigenvalue (…,) of symmetric matrices (…, s, s) that have none below zero, and its vector (…, s)."""
    if matrix.ndim > 2 or len(matrix) < LARGE:
        values, vectors = np.linalg.eigh(matrix)
    else:
        from scipy.sparse.linalg import eigsh

        # A fixed start vector: eigsh would otherwise draw one, and the last digits would change from run to run.
        values, vectors = eigsh(matrix, k=1, which="LA", v0=np.random.default_rng(0).standard_normal(len(matrix)))
    return np.asarray(values[..., -1]), vectors[..., -1]


def nearest(points: np.ndarray, rows: np.ndarray, k: int, owner: np.ndarray) -> np.ndarray:
    """Return (len(rows), k) the nearest neighbours of some of the points in other documents than their own, in the order of their numbers.

    It compares all distances from these points, in float64. The points must be centred.
    """
    # ‖a‖² is left out of ‖a − b‖²: it is the same for all candidates of a row and cannot change their order.
    n, asked = len(points), points[rows].astype(np.float64)
    squares = np.empty((len(rows), n))
    for start in range(0, n, ROWS):
        block = points[start : start + ROWS].astype(np.float64)
        squares[:, start : start + ROWS] = (block**2).sum(1) - 2 * asked @ block.T
    # Tokens of one document resemble each other: its own points would show how documents cluster, not how the cloud is shaped.
    squares[owner[rows][:, None] == owner] = np.inf
    neighbours = np.sort(np.argpartition(squares, k - 1, axis=1)[:, :k], axis=1) if k < n else np.empty((0, k), np.int64)
    fewest = int(np.isfinite(squares).sum(1).min())
    if fewest < k:
        raise IsoscopeError(f"a neighbourhood needs {k} points of other documents, and some points have {fewest}; measure more documents")
    return neighbours


def neighbourhoods(points: np.ndarray, rows: np.ndarray, k: int, owner: np.ndarray) -> tuple[Floats, Floats]:
    """Return the average shape (2,) of the neighbourhoods of some of the points, and the influence (n, 2) of each point on it.

    A point has influence through its own neighbourhood and through those of others that it is in.
    """
    members = nearest(points, rows, k, owner)
    shapes = [shape(points[members[start : start + AT_ONCE]]) for start in range(0, len(members), AT_ONCE)]
    values = np.concatenate([some.values for some in shapes])
    mean = values.mean(0)
    influence = np.zeros((len(points), 2))
    influence[rows] = values - mean
    np.add.at(influence, members, np.concatenate([some.influence for some in shapes]) / k)
    return mean, influence / len(rows)


@dataclass(frozen=True)
class Comparison:
    """Average shapes within a cloud and within its controls; arrays are (2,), in the order of `MEASURES`."""

    n: int
    d: int
    value: Floats
    error: Floats
    """Standard errors over documents; NaN with fewer than three."""
    effective: float
    """The effective number of documents."""
    gaussian: Floats
    """(CONTROLS, 2)."""
    shuffled: Floats
    whole: Floats
    """The shape of all points at once."""
    description: str
    """How the shapes were made, for the note."""

    def number(self, measure: str) -> Number:
        """The value, its interval, and the Gaussian control as its null."""
        return self._number(measure, self.value, np.zeros(2), self.gaussian.mean(0), 0.0, 1.0)

    def excess(self, measure: str) -> Number:
        """The value less that of the Gaussian control; the interval includes the chance of both, and decides if it excludes 0."""
        chance = self.gaussian.var(0, ddof=1) / len(self.gaussian)
        return self._number(measure, self.value - self.gaussian.mean(0), chance, np.zeros(2), -1.0, 1.0)

    def _number(self, measure: str, value: Floats, chance: Floats, null: Floats, lowest: float, highest: float) -> Number:
        i = MEASURES.index(measure)
        if np.isnan(value[i]):
            return Number(np.nan, n=self.n, d=self.d, note="one dimension is always evenly spread")
        # `chance` is that of the control's mean, and only an excess has it. One more draw of a control would spread by 1 + 1/CONTROLS.
        variance = self.error[i] ** 2 + chance[i]
        half = margin(variance**0.5, self.effective - 1) if self.effective > 1 else np.nan
        spread = self.gaussian[:, i].std(ddof=1) * (1 + (chance[i] > 0) / len(self.gaussian)) ** 0.5
        return Number(
            float(value[i]),
            n=self.n,
            d=self.d,
            low=max(float(value[i]) - half, lowest),
            high=min(float(value[i]) + half, highest),
            null=float(null[i]),
            null_sd=float(spread),
            note=f"of all points {self.whole[i]:.3g}, within a Gaussian {self.gaussian[:, i].mean():.3g}, "
            f"with dimensions shuffled {self.shuffled[i]:.3g}; {self.description}",
        )


def compare(points: DistinctPoints, d: int, within: Callable[[np.ndarray], Measured], description: str) -> Comparison:
    """Return the shapes that `within` gives for the points and for their controls."""
    if points.duplicates:
        description += f", {points.duplicates} duplicates left out"
    value, influence = within(points.points)
    return Comparison(
        n=points.n,
        d=d,
        value=value,
        error=points.standard_error(influence),
        effective=points.effective,
        gaussian=np.array([within(control)[0] for control in gaussians_by_document(points.points, points.owner)]),
        shuffled=within(shuffle_dimensions(points.points))[0],
        whole=shape(points.points).values,
        description=description,
    )


def compare_sample(cloud: Cloud, make: Callable[[Sample], Comparison]) -> Comparison | str:
    """Return the comparison of a cloud's sample with its controls, or why there is none."""
    try:
        return make(cloud.require_sample())
    except IsoscopeError as error:
        return str(error)


def comparison_number(cloud: Cloud, comparison: Comparison | str, measure: str, *, excess: bool = False) -> Number:
    """Return a number of a comparison, with the Gaussian control as its null, or its excess over that control; or why there is none."""
    if isinstance(comparison, str):
        return Number(np.nan, n=len(cloud.require_sample()), d=cloud.d, note=comparison)
    return comparison.excess(measure) if excess else comparison.number(measure)


def local_comparison(cloud: Cloud) -> Comparison | str:
    """Return the neighbourhoods of a cloud's sample against their controls, or why there are none."""
    return compare_sample(cloud, _compare_neighbourhoods)


def _compare_neighbourhoods(sample: Sample) -> Comparison:
    sampled, k = DistinctPoints.of(sample), NEIGHBOURS
    if sampled.n <= k:
        raise IsoscopeError(f"a neighbourhood of {k} points needs at least {k + 1} distinct points; there are {sampled.n}")
    if sampled.owner.max() == 0:
        raise IsoscopeError("all points are of one document, and neighbours are sought in others; measure more documents")
    rows = np.arange(min(CENTRES, sampled.n))
    description = f"{k} neighbours of {len(rows)} points"
    return compare(sampled, sample.d, lambda points: neighbourhoods(points, rows, k, sampled.owner), description)


def local_number(cloud: Cloud, measure: str, *, excess: bool = False) -> Number:
    """Return the mean `share` or `isoscore` of neighbourhoods, or its excess over the Gaussian control."""
    return comparison_number(cloud, cloud.cached(local_comparison), measure, excess=excess)
