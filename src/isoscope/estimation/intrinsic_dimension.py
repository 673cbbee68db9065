"""Intrinsic dimension from the distances to nearest neighbours: estimators, their standard errors, and their nulls."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from isoscope.core.errors import IsoscopeError
from isoscope.core.number import Number
from isoscope.core.numerics import Floats, margin
from isoscope.estimation.cloud import Cloud
from isoscope.estimation.isotropic_dimensions import tabulated_level
from isoscope.estimation.neighbours import Neighbours
from isoscope.estimation.resampled_neighbours import Among, isotropic_clouds, jackknife_error, mean_length, round_sample_size

FEWEST = 10
"""The smallest number of distinct points that have a dimension."""
TINY = 1e-8
"""Razzhigaev et al. drop points nearer to their neighbour than this (in mean lengths of a centred point), and those with μ − 1 below it."""
SCALE = 8
"""The metric `gride` compares the distances to the 8th and to the 16th neighbour."""


@dataclass(frozen=True)
class Fit:
    """A dimension, and how far each point moves it: its influence, with mean zero, in the order of the distances."""

    value: float
    influence: Floats


NOTHING = Fit(math.nan, np.zeros(0))


def log_ratios(distances: Floats, inner: int = 1, outer: int = 2) -> Floats:
    """Return (n,) ln(r_outer/r_inner) of distances (n, k); 0 where r_inner is 0.

    >>> log_ratios(np.array([[1.0, np.e], [0.0, 1.0]])).tolist()
    [1.0, 0.0]
    """
    near, far = distances[:, inner - 1], distances[:, outer - 1]
    return np.log(np.divide(far, near, out=np.ones(len(near)), where=near > 0))


def _line(logs: Floats, dropped: int, keep: int) -> Fit:
    """Return the slope through the origin of −ln(1 − F) on ln μ over `keep` values, after the `dropped` smallest ones.

    The influence is that of a ratio of two L-statistics: with c = min(ln μ, the largest kept), ∫₀ᶜ −ln(1 − F(t)) dt − slope·c².
    """
    n, order = len(logs), np.argsort(logs, kind="stable")
    used = slice(dropped, dropped + keep)
    x = logs[order]
    y = -np.log1p(-np.arange(1, n)[used] / n) if dropped + keep < n else np.zeros(0)
    if not len(y) or not float(x[used] @ x[used]) > 0:
        return NOTHING
    squares = float(x[used] @ x[used])
    slope = float(x[used] @ y) / squares
    c = np.minimum(x, x[dropped + keep - 1])
    area = np.cumsum(-np.log1p(-np.arange(n) / n) * np.diff(c, prepend=0.0))
    influence = np.empty(n)
    influence[order] = (area - slope * c**2) * n / squares
    return Fit(slope, influence - influence.mean())


def facco(distances: Floats) -> Fit:
    """TwoNN as published: the line through the origin of −ln(1 − F(μ)) on ln μ, μ = r₂/r₁, without the largest tenth of μ."""
    return _line(log_ratios(distances), 0, int(len(distances) * 0.9))


def razzhigaev(distances: Floats) -> Fit:
    """TwoNN as Razzhigaev et al. compute it, of distances in mean lengths of a centred point.

    Points with r₁ < 1e-8 or μ ≤ 1 + 1e-8 are dropped and still counted in F. The lowest fifth of the others is fitted.
    """
    logs = log_ratios(distances)
    good = (distances[:, 0] >= TINY) & (logs > math.log1p(TINY))
    left = int(good.sum())
    return _line(np.where(good, logs, 0.0), len(logs) - left, min(left // 5, left - 1))


def mle(distances: Floats) -> Fit:
    """TwoNN by maximum likelihood, unbiased: (n − 1)/Σ ln μ.

    >>> mle(np.array([[1.0, np.e], [2.0, 2 * np.e]])).value
    0.5
    """
    logs = log_ratios(distances)
    total = float(logs.sum())
    if not total > 0:
        return NOTHING
    value = (len(logs) - 1) / total
    return Fit(value, value**2 * (logs.mean() - logs))


def gride(distances: Floats, inner: int) -> Fit:
    """The d that maximises the likelihood of μ = r₂ₘ/rₘ, m = `inner`: (μ^d − 1)^(m−1) · d/μ^((2m−1)d+1).

    The root of (n − 1)/d + (m − 1)·Σ ln μ/(1 − μ^−d) − (2m − 1)·Σ ln μ, with n − 1 as in `mle`, which it equals for m = 1. Points whose
    distances are tied (μ = 1) are left out.
    """
    from scipy.optimize import brentq

    all_logs = log_ratios(distances, inner, 2 * inner)
    logs = all_logs[all_logs > 0]
    n, total = len(logs), float(logs.sum())
    if n < 2:
        return NOTHING

    def score(d: float) -> float:
        return (n - 1) / d + (inner - 1) * float((logs / -np.expm1(-d * logs)).sum()) - (2 * inner - 1) * total

    low = high = n * sum(1 / j for j in range(inner, 2 * inner)) / total  # the d for which the mean of ln μ is its expectation
    while score(low) < 0:
        low *= 0.9
    while score(high) > 0:
        high *= 1.1
    # The score falls in d, so the two loops above bracket its only root. expm1 keeps the digits of points with μ near 1, and sinh those of
    # the curvature: μ^−d/(1 − μ^−d)² = 1/(4·sinh²(d·ln μ/2)), which vanishes, as it should, where sinh overflows.
    value = float(brentq(score, low, high, xtol=1e-13 * high, rtol=1e-13))
    score_by_point = 1 / value + (inner - 1) * logs / -np.expm1(-value * logs) - (2 * inner - 1) * logs
    with np.errstate(over="ignore"):
        curvature = 1 / value**2 + (inner - 1) * (logs / (2 * np.sinh(value * logs / 2))) ** 2
    influence = np.zeros(len(all_logs))
    influence[all_logs > 0] = (score_by_point - score_by_point.mean()) / curvature.mean() * len(all_logs) / n
    return Fit(value, influence)


def levina_bickel(distances: Floats) -> Fit:
    """Maximum likelihood over the k given neighbours, points joined by the harmonic mean: n(k − 1)/ΣΣ ln(r_k/r_j)."""
    n, k = distances.shape
    alive = distances[:, 0] > 0
    sums = np.zeros(n)
    sums[alive] = np.log(distances[alive, -1:] / distances[alive, :-1]).sum(1)
    total = float(sums.sum())
    if not total > 0:
        return NOTHING
    value = int(alive.sum()) * (k - 1) / total
    return Fit(value, np.where(alive, value * (1 - sums * (alive.sum() / total)), 0.0) * n / alive.sum())


@dataclass(frozen=True)
class Estimator:
    """A function from the distances (n, k) to a dimension; `repeats` says that exact duplicates stay among the points."""

    name: str
    fit: Callable[[Floats], Fit]
    k: int
    repeats: bool = False

    def value(self, part: Among) -> float:
        """The dimension of a part of the points."""
        return self.fit(part.distances).value


FACCO, MLE = Estimator("facco", facco, 2), Estimator("mle", mle, 2)
RAZZHIGAEV = Estimator("razzhigaev", razzhigaev, 2, repeats=True)
GRIDE = Estimator("gride", partial(gride, inner=SCALE), 2 * SCALE)
LEVINA_BICKEL = Estimator("levina_bickel", levina_bickel, 20)
ESTIMATORS = {estimator.name: estimator for estimator in (FACCO, MLE, RAZZHIGAEV, GRIDE, LEVINA_BICKEL)}


@dataclass(frozen=True)
class Rows:
    """The input of an estimator: distances (n, k), the distinct points (n, 1 + k) that these depend on, and the item (n,)."""

    distances: Floats
    points: np.ndarray
    unit: np.ndarray


def rows(found: Neighbours, estimator: Estimator, unit: np.ndarray, length: float = 1.0) -> Rows:
    """Return the rows of an estimator: one per distinct point or, if duplicates stay, one per point with its distances over `length`."""
    k = estimator.k
    n, distances = len(found.kept), found.distances[:, :k]
    seen = np.concatenate([np.arange(n)[:, None], found.indices[:, :k]], axis=1)
    if not estimator.repeats:
        return Rows(distances, seen, unit[found.kept])
    owner = found.owner
    copies = np.bincount(owner, minlength=n)
    # The search knows distinct points only. If the nearest one has copies, two points lie at r₁; a point that has a copy itself lies at
    # distance 0 from it, and its nearest distinct point is then the second neighbour; with two copies both distances are 0.
    near, far = distances[:, 0], np.where(copies[found.indices[:, 0]] > 1, distances[:, 0], distances[:, 1])
    near, far = np.where(copies > 1, 0.0, near), np.where(copies > 2, 0.0, np.where(copies > 1, near, far))
    return Rows(np.stack([near, far], axis=1)[owner] / length, seen[owner], unit)


def shared_error(influence: Floats, seen: Rows) -> tuple[float, float]:
    """Return the standard error of a mean of influences, and its degrees of freedom: the effective number of items less one.

    Two rows depend on each other if they see the same points or come from one item. Var = Σ wᵢⱼzᵢzⱼ/n² with w the part of the points
    seen that both share, which is a sum of squares over points; the pairs of one item are added with w = 1.
    """
    n, width = seen.points.shape
    items, unit = np.unique(seen.unit, return_inverse=True)
    effective = float(n**2 / (np.bincount(unit).astype(float) ** 2).sum())
    if effective < 3:
        return math.nan, math.nan
    by_point = float((np.bincount(seen.points.ravel(), np.repeat(influence, width)) ** 2).sum()) / width
    by_item = float((np.bincount(unit, influence) ** 2).sum())
    # Each row's own square is in both sums and is subtracted once. Chance can make the rest of one sum negative; the variance is then
    # at least the other sum.
    variance = max(by_point + by_item - float(influence @ influence), by_point, by_item) / n**2
    return (variance * len(items) / (len(items) - 1)) ** 0.5, effective - 1


def interval(value: float, error: float, freedom: float) -> tuple[float, float]:
    """Return a 95 % interval that is symmetric on a logarithmic scale."""
    if not (math.isfinite(error) and value > 0):
        return math.nan, math.nan
    # Errors of a dimension multiply: half and double are equally far off. Beyond exp(700) a float overflows.
    factor = math.exp(min(margin(error, freedom) / value, 700.0))
    return value / factor, value * factor


@lru_cache(maxsize=256)
def _draw_level(estimator: Estimator, n: int, d: int) -> tuple[float, float]:
    values, errors = [], []
    for cloud in isotropic_clouds(n, d):
        seen = rows(cloud.found, estimator, np.arange(n), cloud.length)
        fit = estimator.fit(seen.distances)
        values.append(fit.value)
        errors.append(shared_error(fit.influence, seen)[0])
    # At most eight draws say little about their own spread, so the standard error within a draw is a floor.
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return float(np.mean(values)), max(spread, float(np.mean(errors)))


def isotropic_level(estimator: Estimator, n: int, d: int) -> tuple[float, float]:
    """Return an estimator's mean over draws of n isotropic Gaussian points in d dimensions, and the sd of one draw.

    From 256 to 4,096 points it is a fit to simulations, within 1 to 1.5 % of the mean over many draws. Otherwise a few clouds are drawn;
    the sd is then that over the draws or, if that is larger, the standard error of a draw.
    """
    return tabulated_level(estimator.name, n, d) or _draw_level(estimator, round_sample_size(n), d)


def dimension(cloud: Cloud, estimator: Estimator) -> Number:
    """Return the dimension of a cloud's sample, with its interval and its null; NaN with a note if there is none."""
    sample = cloud.require_sample()
    try:
        found = cloud.neighbours(estimator.k)
    except IsoscopeError as problem:
        return Number(math.nan, n=len(sample), d=cloud.d, note=str(problem))
    seen = rows(found, estimator, sample.unit, mean_length(sample.points) if estimator.repeats else 1.0)
    n, fit = len(found.kept), estimator.fit(seen.distances)
    if n < FEWEST or not math.isfinite(fit.value):
        return Number(math.nan, n=n, d=cloud.d, note=refusal(n))
    # Two neighbours are shared by few points, whose dependence can be summed. Larger neighbourhoods all overlap, so groups are left out.
    if estimator.k > 2:
        error, freedom = jackknife_error(cloud.neighbours(), estimator.k, estimator.value, sample.unit)
    else:
        error, freedom = shared_error(fit.influence, seen)
    low, high = interval(fit.value, error, freedom)
    null, null_sd = isotropic_level(estimator, n, cloud.d)
    note = cloud.duplicates_note(found.duplicates, "kept" if estimator.repeats else "left out")
    return Number(fit.value, n=len(seen.unit), d=cloud.d, low=low, high=high, null=null, null_sd=null_sd, note=note)


def refusal(n: int) -> str:
    """Return why n distinct points have no dimension."""
    if n < FEWEST:
        return f"A dimension needs at least {FEWEST} distinct points; there are {n}."
    return "The neighbours of nearly every point are equally far from it: there is no dimension in that."
