"""Measures of one checkpoint: sums of queries and keys by head, and intrinsic dimensions of two halves of the documents."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from isoscope.core.errors import IsoscopeError
from isoscope.core.numerics import Floats
from isoscope.estimation.controls import gaussians
from isoscope.estimation.intrinsic_dimension import FACCO, FEWEST, rows, shared_error
from isoscope.estimation.neighbours import neighbours
from isoscope.statistics.head_statistics import Heads, SecondMoments
from isoscope.statistics.sample import Sample, mix

POINTS = 1024
"""Points of each half, at most."""
NAN = float("nan")


@dataclass(frozen=True)
class HeadSums:
    """n, Σx (h, e) and Σxxᵀ (h, e, e) of the heads of one layer. The sums of checkpoints, or of queries and keys, can be added.

    >>> sums = HeadSums(1, np.ones((1, 2)), np.ones((1, 2, 2)))
    >>> (sums + sums).n, (sums + sums).mean.tolist()
    (2, [[1.0, 1.0]])
    """

    n: int
    total: Floats
    outer: Floats

    def __add__(self, other: HeadSums) -> HeadSums:
        return HeadSums(self.n + other.n, self.total + other.total, self.outer + other.outer)

    @property
    def mean(self) -> Floats:
        """(h, e)."""
        return np.asarray(self.total / max(self.n, 1))

    @classmethod
    def of(cls, heads: Heads, slices: list[int]) -> HeadSums:
        """The sums of a layer's queries or keys over the slices with these numbers."""
        sums = cls(0, np.zeros((heads.h, heads.e)), np.zeros((heads.h, heads.e, heads.e)))
        for number in slices:
            sums = sums + _sums_about_zero(heads.second[number])
        return sums

    def at(self, heads: np.ndarray) -> HeadSums:
        """The sums of these heads, in this order. A head may occur several times, as a key that several queries share."""
        return HeadSums(self.n, self.total[heads], self.outer[heads])


def _sums_about_zero(second: SecondMoments) -> HeadSums:
    """Σx and Σxxᵀ from sums about a shift, or from the points if these are still held."""
    if second.shift is None:
        points = np.concatenate([np.zeros((second.h, 0, second.e)), *second.held], axis=1)
        return HeadSums(second.n, points.sum(1), points.swapaxes(1, 2) @ points)
    # With y = x − s: Σxxᵀ = Σyyᵀ + c + cᵀ, where c = s(Σy + n·s/2)ᵀ, and Σx = Σy + n·s.
    cross = second.shift[:, :, None] * (second.total + second.n / 2 * second.shift)[:, None, :]
    return HeadSums(second.n, second.total + second.n * second.shift, second.outer + cross + cross.swapaxes(1, 2))


@dataclass(frozen=True)
class Level:
    """An intrinsic dimension with its standard error and degrees of freedom."""

    value: float
    error: float = NAN
    freedom: float = NAN


NOTHING = Level(NAN)


def split_documents(sample: Sample) -> tuple[np.ndarray, np.ndarray]:
    """The positions in a sample of each half, by the hash of each point's document: the same documents at every layer and checkpoint."""
    first = (mix(sample.unit) & np.uint64(1)).astype(bool)
    return np.flatnonzero(first), np.flatnonzero(~first)


def measure_level(points: np.ndarray, unit: np.ndarray) -> Level:
    """TwoNN (Facco) of points (n, d) from documents `unit`; NaN if too few of them are distinct."""
    try:
        nearest = neighbours(points, FACCO.k, threads=1)  # the layers of a checkpoint already run in parallel
    except IsoscopeError:
        return NOTHING
    seen = rows(nearest, FACCO, unit)
    fit = FACCO.fit(seen.distances)
    if len(nearest.kept) < FEWEST or not math.isfinite(fit.value):
        return NOTHING
    return Level(fit.value, *shared_error(fit.influence, seen))


@dataclass(frozen=True)
class Levels:
    """One layer at one checkpoint: the half that picks the peak, the half that is judged, and a Gaussian with the layer's covariance."""

    pick: Level
    judge: Level
    gaussian: Level


def measure_levels(sample: Sample, n: int, covariance: Floats | None = None) -> Levels:
    """The levels of n points of each half of a sample, NaN if a half has fewer. The Gaussian has `covariance`, or that of these points."""
    both = split_documents(sample)
    if not n or min(len(half) for half in both) < n:
        return Levels(NOTHING, NOTHING, NOTHING)
    pick, judge = (sample.points[half[:n]] for half in both)
    units = [sample.unit[half[:n]] for half in both]
    gaussian = _gaussian_points(judge, covariance)
    return Levels(*(measure_level(*half) for half in ((pick, units[0]), (judge, units[1]), (gaussian, units[1]))))


def _gaussian_points(points: np.ndarray, covariance: Floats | None) -> np.ndarray:
    """The same number of Gaussian points with this covariance."""
    if covariance is None:
        centred = points - points.mean(0, dtype=np.float64)
        return next(gaussians(centred.astype(np.float32), 1)) if centred.any() else np.zeros_like(points)
    values, vectors = np.linalg.eigh(covariance)
    # The same random numbers at every step: the curve over steps then changes with the covariance alone.
    normal = np.random.default_rng(0).standard_normal(points.shape, dtype=np.float32)
    return np.asarray(normal @ (np.sqrt(values.clip(0))[:, None] * vectors.T).astype(np.float32))
