"""Does a curve over training rise and then fall? The peak is picked on one half of the documents and seeds, and judged on the other."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from isoscope.core.errors import IsoscopeError
from isoscope.core.numerics import LEVEL, Floats, margin
from isoscope.estimation.controls import gaussians
from isoscope.estimation.inference import Estimate, sign_test
from isoscope.estimation.intrinsic_dimension import FACCO, FEWEST, rows, shared_error
from isoscope.estimation.neighbours import neighbours
from isoscope.statistics.sample import Sample, mix

POINTS = 1024
"""Points of each half, at most."""
SHARE = 0.1
"""A rise or a fall counts where it is surely more than this part of the peak."""
NAN = float("nan")


@dataclass(frozen=True)
class Level:
    """An intrinsic dimension with its standard error and degrees of freedom."""

    value: float
    error: float = NAN
    freedom: float = NAN


NOTHING = Level(NAN)


def halves(sample: Sample) -> tuple[np.ndarray, np.ndarray]:
    """Two sets of places in a sample, by the hash of each point's document: the same documents at every layer and checkpoint."""
    first = (mix(sample.unit) & np.uint64(1)).astype(bool)
    return np.flatnonzero(first), np.flatnonzero(~first)


def level(points: np.ndarray, unit: np.ndarray) -> Level:
    """TwoNN (Facco) of points (n, d) from documents `unit`; NaN where there are too few distinct ones."""
    try:
        found = neighbours(points, FACCO.k, threads=1)
    except IsoscopeError:
        return NOTHING
    seen = rows(found, FACCO, unit)
    fit = FACCO.fit(seen.distances)
    if len(found.kept) < FEWEST or not math.isfinite(fit.value):
        return NOTHING
    return Level(fit.value, *shared_error(fit.influence, seen))


@dataclass(frozen=True)
class Levels:
    """One layer at one checkpoint: the half that picks, the half that is judged, and a Gaussian with the layer's covariance."""

    pick: Level
    judge: Level
    gaussian: Level


def levels(sample: Sample, n: int, covariance: Floats | None = None) -> Levels:
    """Those of a sample, n points of each half; nothing where a half has fewer. `covariance` of all points, or of these where None."""
    both = halves(sample)
    if not n or min(len(half) for half in both) < n:
        return Levels(NOTHING, NOTHING, NOTHING)
    pick, judge = (sample.points[half[:n]] for half in both)
    units = [sample.unit[half[:n]] for half in both]
    return Levels(level(pick, units[0]), level(judge, units[1]), level(_gaussian(judge, covariance), units[1]))


def _gaussian(points: np.ndarray, covariance: Floats | None) -> np.ndarray:
    """As many Gaussian points with this covariance, from the same numbers at every step: curves over steps then differ by it alone."""
    if covariance is None:
        centred = points - points.mean(0, dtype=np.float64)
        return next(gaussians(centred.astype(np.float32), 1)) if centred.any() else np.zeros_like(points)
    values, vectors = np.linalg.eigh(covariance)
    normal = np.random.default_rng(0).standard_normal(points.shape, dtype=np.float32)
    return np.asarray(normal @ (np.sqrt(values.clip(0))[:, None] * vectors.T).astype(np.float32))


def mean_level(parts: Sequence[Level]) -> Level:
    """The mean over layers. They see the same tokens: errors are taken to go together, which is if anything too wide."""
    return Level(*(float(np.mean([getattr(part, name) for part in parts])) for name in ("value", "error", "freedom")))


@dataclass(frozen=True)
class Judged:
    """One seed: the step of the peak, rise to it and fall from it on the half that did not pick it, and those of the Gaussian."""

    peak: float
    height: float
    rise: Estimate
    fall: Estimate
    gaussian_rise: Estimate
    gaussian_fall: Estimate
    verdict: str


def difference(top: Level, other: Level) -> Estimate:
    """One dimension less another with Student's interval; the two are taken for independent, which is if anything too wide."""
    value, error = top.value - other.value, math.hypot(top.error, other.error)
    if not math.isfinite(error):
        return Estimate(value)
    half = margin(error, min(top.freedom, other.freedom))
    return Estimate(value, value - half, value + half, "over documents")


def judge(steps: Sequence[int], picking: Floats, curve: Sequence[Levels]) -> Judged:
    """One seed's curve by step, at the peak of `picking`: (steps,) numbers from other documents and, where there are, other seeds.

    `holds` where both lower bounds exceed a tenth of the peak, `fails` where an upper bound does not, else `undecided`. The peak is the
    highest step between the first and the last: a curve that only rises or only falls then has a fall or a rise below zero, and chance
    that lifts an end above the peak cannot make it look like one.
    """
    at = 1 + int(np.nanargmax(picking[1:-1]))
    own, control = [one.judge for one in curve], [one.gaussian for one in curve]
    ends = [difference(own[at], own[end]) for end in (0, -1)]
    beside = [difference(control[at], control[end]) for end in (0, -1)]
    least = SHARE * own[at].value
    short = any(end.high <= least for end in ends)
    said = "holds" if all(end.low > least for end in ends) else "fails" if short else "undecided"
    return Judged(float(steps[at]), own[at].value, ends[0], ends[1], beside[0], beside[1], said)


def rise_then_fall(steps: Sequence[int], curves: Mapping[int, Sequence[Levels]]) -> dict[int, Judged]:
    """Every seed, judged at the peak that the other half of the seeds picks on the other half of the documents.

    Of a single seed the documents alone are divided. `curves`: by seed, a `Levels` for each of the steps.
    """
    seeds = list(curves)
    picking = {seed: np.array([one.pick.value for one in curve]) for seed, curve in curves.items()}
    found = {}
    for i, seed in enumerate(seeds):
        others = [other for j, other in enumerate(seeds) if j % 2 != i % 2] or [seed]
        mean = np.mean([picking[other] for other in others], axis=0)
        judged = np.array([part.value for one in curves[seed] for part in (one.judge, one.gaussian)])
        if len(steps) >= 3 and np.isfinite(mean).all() and np.isfinite(judged).all():
            found[seed] = judge(steps, mean, curves[seed])
    return found


def verdict(found: Sequence[Judged]) -> tuple[str, float]:
    """Over seeds, and p of the sign test: `holds` where p < 0.05, five of five or more; `fails` where it is so of those that fail.

    >>> verdict([])
    ('undecided', 1.0)
    """
    words = [one.verdict for one in found]
    p, against = (sign_test(words.count(word), len(words), one_sided=True) for word in ("holds", "fails"))
    return ("holds" if p < LEVEL else "fails" if against < LEVEL else "undecided"), p
