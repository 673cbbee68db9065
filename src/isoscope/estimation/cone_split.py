"""Do points fall into several groups? They are split in two by k-means on one half, and the split is judged on the other half."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isoscope.core.numerics import Floats
from isoscope.estimation.clusters import kmeans
from isoscope.estimation.neighbours import distinct

ONE_PEAK = 0.75
"""The largest part of the variance of a symmetric distribution with one peak that a split at its centre explains.

Such a distribution is a mixture of uniform ones around its centre, for each of which the part is (a/2)²/(a²/3) = 3/4. A normal one has 2/π.
"""
FEWEST = 128
"""Points that are needed to judge a split."""
SMALLEST_SIDE = 0.05
"""The part of the points that each side of a split has at least: fewer are outliers, not a group."""
MOST_CONES = 16
DRAWS = 200


@dataclass(frozen=True)
class ConeSplit:
    """The part of the variance along the line between two centres that their split explains, its 95 % interval, and how many groups."""

    share: float
    low: float
    high: float
    cones: int


def split_into_cones(points: np.ndarray, seed: int = 0) -> ConeSplit | None:
    """Split points (n, d) until no part has a gap; None with fewer than 128 distinct points that are not zero.

    >>> rng = np.random.default_rng(0)
    >>> one, other = rng.standard_normal((2, 400, 8))
    >>> split_into_cones(np.concatenate([one, other + 5.0])).cones, split_into_cones(np.concatenate([one, other])).cones
    (2, 1)
    """
    points = points[distinct(points)]
    points = points[np.any(points != 0, axis=1)]
    if len(points) < FEWEST:
        return None
    rng = np.random.default_rng(seed)
    # In float64, because the mean may be far larger than what is left; the largest coordinate is the unit, so that no square overflows.
    points = points.astype(np.float64)
    points -= points.mean(0)
    points /= max(float(abs(points).max()), 1e-300)
    first = _split(points, rng)
    if first is None:
        return None
    split, sides = first
    if split.low <= ONE_PEAK:
        return split
    return ConeSplit(split.share, split.low, split.high, _count_cones(sides, rng))


def _count_cones(sides: list[np.ndarray], rng: np.random.Generator) -> int:
    """How many groups the sides of a split fall into, the largest side first."""
    waiting, cones = list(sides), 0
    while waiting and cones + len(waiting) < MOST_CONES:
        waiting.sort(key=len)
        points = waiting.pop()
        again = _split(points - points.mean(0), rng) if len(points) >= FEWEST else None
        if again is not None and again[0].low > ONE_PEAK:
            waiting += again[1]
        else:
            cones += 1
    return cones + len(waiting)


def _split(points: np.ndarray, rng: np.random.Generator) -> tuple[ConeSplit, list[np.ndarray]] | None:
    """The split of points, judged on the half that did not choose it, and both sides of it; None if all points are equal."""
    order = rng.permutation(len(points))
    chosen, held_out = order[: len(order) // 2], order[len(order) // 2 :]
    centres = kmeans(points[chosen], 2).centres
    line = centres[1] - centres[0]
    length = float(np.linalg.norm(line))
    if not length > 0:
        return None
    places = points @ (line / length)
    values = np.sort(places[held_out])
    share, at = _best_split(values, np.ones((1, len(values))))
    draws, _ = _best_split(values, rng.multinomial(len(values), np.full(len(values), 1 / len(values)), size=DRAWS).astype(np.float64))
    low, high = np.quantile(draws, [0.025, 0.975])
    edge = values[int(at[0])]
    sides = [points[places <= edge], points[places > edge]]
    return ConeSplit(float(share[0]), float(low), float(high), 1), sides


def _best_split(values: Floats, weights: Floats) -> tuple[Floats, np.ndarray]:
    """(draws,) the largest part of the variance of sorted values that a split explains, and after which value it splits.

    Args:
        values: (n,).
        weights: (draws, n) how often each value counts.
    """
    n, before = weights.sum(1, keepdims=True), np.cumsum(weights, 1)
    sums = np.cumsum(weights * values, 1)
    mean = sums[:, -1:] / n
    variance = (weights * np.square(values - mean)).sum(1) / n[:, 0]
    after = n - before
    with np.errstate(divide="ignore", invalid="ignore"):
        between = np.square(sums - before * mean) / (before * after) / np.maximum(variance[:, None], 1e-300)
    allowed = (before >= SMALLEST_SIDE * n) & (after >= SMALLEST_SIDE * n)
    between = np.where(allowed, between, 0.0)
    at = between.argmax(1)
    return between[np.arange(len(at)), at], at
