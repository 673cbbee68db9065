"""Clusters by k-means, and their shapes against those of a Gaussian that is clustered in the same way."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from isoscope.core.errors import IsoscopeError
from isoscope.core.number import Number
from isoscope.core.numerics import Floats
from isoscope.estimation.cloud import Cloud
from isoscope.estimation.local_geometry import Comparison, DistinctPoints, Measured, compare, compare_sample, comparison_number, shape
from isoscope.statistics.sample import Sample

COUNTS = (2, 4, 8, 16, 32)
"""The numbers of clusters that are tried."""
SMALLEST = 8
"""Points that a cluster has on average, at least."""
STARTS = 3
"""Runs of k-means from different starts; the best result is kept."""
STEPS = 50
"""Steps of k-means, at most."""
SETTLED = 0.001
"""k-means ends when at most this fraction of the points changes its cluster."""


@dataclass(frozen=True)
class Clusters:
    """k centres, and which of them each point is nearest to."""

    centres: Floats
    """(k, d)."""
    label: np.ndarray
    """(n,)."""
    inertia: float
    """The squared distances of all points to their centres, summed."""
    silhouette: float
    """The simplified silhouette: 1 − a/b on average, a and b being the distances to the nearest and to the second centre."""


def kmeans(points: np.ndarray, k: int, seed: int = 0) -> Clusters:
    """Return the best of three runs of k-means from k-means++ starts, which do not depend on the order of points.

    Points that lie far from the origin must be centred first.

    >>> kmeans(np.array([[0.0], [1.0], [10.0], [11.0]]), 2).label.tolist() in ([0, 0, 1, 1], [1, 1, 0, 0])
    True
    """
    unit = _unit(points)
    points = points / points.dtype.type(unit)
    lengths = np.einsum("ij,ij->i", points, points, dtype=np.float64)
    # Starts are drawn from the points ordered by length, so that the same points in another order give the same clusters.
    order = np.argsort(lengths, kind="stable")
    ordered, rng = points[order], np.random.default_rng(seed)
    starts = (_draw_centres(ordered, lengths[order], k, rng) for _ in range(STARTS))
    best = min((_lloyd(points, lengths, centres) for centres in starts), key=lambda clusters: clusters.inertia)
    return best if unit == 1.0 else replace(best, centres=best.centres * unit, inertia=best.inertia * unit**2)


def _unit(points: np.ndarray) -> float:
    """Return the length to count as 1: a power of two, other than 1 if squares in float32 would overflow or vanish."""
    largest = float(abs(points).max(initial=0.0))
    return 1.0 if largest == 0.0 or 2.0**-40 < largest < 2.0**40 else 2.0 ** int(np.frexp(largest)[1])


def squared_distances(points: np.ndarray, lengths: Floats, centres: Floats) -> Floats:
    """(n, k) from points with the squared lengths given to centres."""
    # ‖x‖² − 2x·c + ‖c‖² in float32 may fall below zero by rounding, when a point is its own centre.
    products = points @ centres.T.astype(points.dtype)
    return np.asarray(np.maximum(lengths[:, None] - 2.0 * products + (centres**2).sum(1), 0.0))


def _draw_centres(points: np.ndarray, lengths: Floats, k: int, rng: np.random.Generator) -> Floats:
    """k of the points, each drawn by its squared distance to those that were drawn before (Arthur and Vassilvitskii 2007)."""
    chosen = [int(rng.integers(len(points)))]
    near = np.full(len(points), np.inf)
    for _ in range(k - 1):
        near = np.minimum(near, squared_distances(points, lengths, points[chosen[-1:]].astype(np.float64))[:, 0])
        near[chosen] = 0.0  # rounding may leave a drawn point a little above zero, and it must not be drawn again
        if not near.any():
            break
        edges = np.cumsum(near)
        chosen.append(int(np.searchsorted(edges, rng.random() * edges[-1], side="right")))
    return points[chosen].astype(np.float64)


def _lloyd(points: np.ndarray, lengths: Floats, centres: Floats) -> Clusters:
    """Move centres to the means of their points until hardly any changes; a centre without points takes the one farthest from its own."""
    label = np.full(len(points), -1)
    for _ in range(STEPS):
        distances = squared_distances(points, lengths, centres)
        before, label = label, distances.argmin(1)
        counts = np.bincount(label, minlength=len(centres))
        for empty in np.flatnonzero(counts == 0):
            movable = np.where(counts[label] > 1, distances[np.arange(len(label)), label], -1.0)
            farthest = int(movable.argmax())
            counts[label[farthest]] -= 1
            label[farthest], counts[empty] = empty, 1
        if (label != before).sum() <= SETTLED * len(label):
            break
        # A product with the membership adds up all clusters at once; np.add.at would be many times slower.
        members = (np.arange(len(centres))[:, None] == label).astype(points.dtype)
        centres = (members @ points).astype(np.float64) / counts[:, None]
    # Distances to centres stand for distances to all points: the full silhouette needs every pair.
    distances = squared_distances(points, lengths, centres)
    two = np.sqrt(np.partition(distances, 1, axis=1)[:, :2]) if len(centres) > 1 else np.ones((len(points), 2))
    with np.errstate(invalid="ignore"):
        silhouette = float(np.nan_to_num(1 - two[:, 0] / two[:, 1]).mean())
    return Clusters(centres, label, float(distances[np.arange(len(label)), label].sum()), silhouette)


def cluster(points: np.ndarray, seed: int = 0) -> Clusters:
    """k-means with the k of 2, 4, 8, 16 and 32 whose simplified silhouette is largest, clusters having at least 8 points on average."""
    counts = [k for k in COUNTS if k * SMALLEST <= len(points)]
    if not counts:
        raise IsoscopeError(f"clusters need at least {COUNTS[0] * SMALLEST} distinct points; there are {len(points)}")
    return max((kmeans(points, k, seed) for k in counts), key=lambda clusters: clusters.silhouette)


def cluster_shapes(points: np.ndarray, label: np.ndarray) -> Measured:
    """The shape (2,) of clusters about their own centres, averaged by their sizes, and the influence (n, 2) of each point on it.

    A cluster of one point has no shape and is left out. The influence takes the clusters as they are.
    """
    value, influence, counted = np.zeros(2), np.zeros((len(points), 2)), 0
    for own in range(int(label.max()) + 1):
        rows = np.flatnonzero(label == own)
        if len(rows) < 2:
            continue
        spread = shape(points[rows])
        value, counted = value + len(rows) * spread.values, counted + len(rows)
        influence[rows] = spread.values + spread.influence
    value = value / counted if counted else np.full(2, np.nan)
    shaped = np.bincount(label)[label] > 1
    influence[shaped] -= value
    return value, influence / max(counted, 1)


def cluster_comparison(cloud: Cloud) -> Comparison | str:
    """Return the clusters of a cloud's sample against those of their controls, or why there are none."""
    return compare_sample(cloud, _compare_clusters)


def _compare_clusters(sample: Sample) -> Comparison:
    distinct = DistinctPoints.of(sample)
    clusters = cluster(distinct.points)
    k = len(clusters.centres)

    def within(points: np.ndarray) -> Measured:
        # A control has no clusters of its own. It is divided into the same number, so that both are cut equally fine.
        return cluster_shapes(points, (clusters if points is distinct.points else kmeans(points, k)).label)

    return compare(distinct, sample.d, within, f"{k} clusters, silhouette {clusters.silhouette:.2f}")


def cluster_number(cloud: Cloud, measure: str) -> Number:
    """Return the mean `share` or `isoscore` of clusters, with the Gaussian control as its null."""
    return comparison_number(cloud, cloud.cached(cluster_comparison), measure)
