"""Estimates with 95 % intervals, how to combine them, exact tests, and what many of them need to hold at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import ArrayLike

from isoscope.core.errors import IsoscopeError
from isoscope.core.numerics import LEVEL, Floats, margin, upper_quantile, widening

NAN = float("nan")
DRAWS = 9_999
ROWS = 1_000
"""Draws that are multiplied together."""
FEWEST_PER_GROUP = 3
"""With fewer models in a group nothing is decided: with three and three, the smallest p is already 0.1."""
MOST_RELABELLINGS = 2_000_000
"""The largest number of relabellings that are enumerated."""


@dataclass(frozen=True)
class Estimate:
    """A number and its 95 % interval; `note` says over what, or why there is none."""

    value: float
    low: float = NAN
    high: float = NAN
    note: str = ""
    freedom: float = field(default=math.inf, repr=False)
    """Degrees of freedom of the interval. With few of them an interval at a stricter level is much wider."""
    scale: Callable[[float], float] = field(default=float, repr=False, compare=False)
    """The function of the number on which the interval is symmetric."""

    def linear(self, factor: float, shift: float = 0.0) -> Estimate:
        """factor·x + shift, with the ends of the interval in order.

        >>> Estimate(1.0, 0.5, 2.0).linear(-1)
        Estimate(value=-1.0, low=-2.0, high=-0.5, note='')
        """
        value, low, high = (factor * x + shift for x in (self.value, self.low, self.high))
        return replace(self, value=value, low=min(low, high), high=max(low, high))


def student(values: ArrayLike, bounds: tuple[float, float] = (-math.inf, math.inf)) -> Estimate:
    """The mean of independent values and its 95 % interval by Student's t, within bounds. A single value has no interval.

    >>> mean = student([1.0, 2.0, 3.0])
    >>> mean.value, round(mean.low, 3), round(mean.high, 3)
    (2.0, -0.484, 4.484)
    """
    known = np.asarray(values, dtype=np.float64)
    known = known[np.isfinite(known)]
    n, mean = len(known), float(known.mean()) if len(known) else NAN
    if n < 2:
        return Estimate(mean)
    half = margin(float(known.std(ddof=1)) / math.sqrt(n), n - 1)
    return Estimate(mean, max(mean - half, bounds[0]), min(mean + half, bounds[1]), freedom=n - 1)


def welch(first: ArrayLike, second: ArrayLike) -> Estimate:
    """The mean of one group less that of another, with Welch's 95 % interval.

    >>> gap = welch([1.0, 1.1, 1.2], [0.0, 0.1, 0.2])
    >>> round(gap.value, 3), round(gap.low, 3), round(gap.high, 3)
    (1.0, 0.773, 1.227)
    """
    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    value = float(a.mean() - b.mean()) if len(a) and len(b) else NAN
    if min(len(a), len(b)) < 2:
        return Estimate(value)
    # Each group has its own variance, so the degrees of freedom are Satterthwaite's: nearer to those of the group that spreads more.
    variances = a.var(ddof=1) / len(a), b.var(ddof=1) / len(b)
    total = sum(variances)
    if total == 0:
        return Estimate(value, value, value)
    freedom = float(total**2 / (variances[0] ** 2 / (len(a) - 1) + variances[1] ** 2 / (len(b) - 1)))
    half = margin(math.sqrt(total), freedom)
    return Estimate(value, value - half, value + half, freedom=freedom)


def least_of(estimates: Sequence[Estimate], widen: float | None = None) -> Estimate:
    """The least of several estimates, with an interval for the least and its note: for what must be true of each of them.

    `widen` is the factor by which the intervals must grow to hold all at once; Bonferroni's by default.

    >>> least_of([Estimate(1.0, 0.5, 1.5, "a"), Estimate(0.8, 0.7, 0.9, "b")], 1.2)
    Estimate(value=0.8, low=0.5, high=0.92, note='b')
    """
    return greatest_of([estimate.linear(-1) for estimate in estimates], widen).linear(-1)


def greatest_of(estimates: Sequence[Estimate], widen: float | None = None) -> Estimate:
    """The greatest of several estimates, with an interval for the greatest and its note: for what must be true of one of them.

    >>> greatest_of([Estimate(1.0, 0.5, 1.5, "a"), Estimate(0.8, 0.75, 0.85, "b")], 1.2)
    Estimate(value=1.0, low=0.74, high=1.5, note='a')
    """
    if not estimates:
        return Estimate(NAN)
    values, lows, highs = (np.array([getattr(estimate, name) for estimate in estimates]) for name in ("value", "low", "high"))
    greatest = estimates[int(values.argmax())]
    if not np.isfinite([lows, highs]).all():
        return greatest
    freedom = min(estimate.freedom for estimate in estimates)
    factor = widening(len(estimates), freedom) if widen is None else widen
    # The upper end needs no allowance: the greatest lies below a level only if all do. The lower end does need one, because the
    # greatest of many lies too high by chance.
    low = min(float((values - factor * (values - lows)).max()), greatest.value)
    return Estimate(greatest.value, low, float(highs.max()), greatest.note, freedom)


def mean_of(estimates: Sequence[Estimate]) -> Estimate:
    """The mean of numbers from the same documents. Their errors count as fully correlated, so the interval is conservative."""
    if not estimates:
        return Estimate(NAN)
    value, low, high = (float(np.mean([getattr(estimate, name) for estimate in estimates])) for name in ("value", "low", "high"))
    return Estimate(value, low, high, freedom=min(estimate.freedom for estimate in estimates))


def difference_of(first: Estimate, second: Estimate) -> Estimate:
    """One number less another from the same documents; the interval is the widest that the two allow."""
    return Estimate(first.value - second.value, first.low - second.high, first.high - second.low)


def clopper_pearson(wins: int, n: int) -> tuple[float, float]:
    """The exact 95 % interval of a proportion, `wins` of n.

    >>> [round(x, 4) for x in clopper_pearson(5, 5)]
    [0.4782, 1.0]
    """
    from scipy.special import betaincinv

    low = float(betaincinv(wins, n - wins + 1, LEVEL / 2)) if wins else 0.0
    high = float(betaincinv(wins + 1, n - wins, 1 - LEVEL / 2)) if wins < n else 1.0
    return low, high


def sign_test(wins: int, n: int, *, one_sided: bool = False) -> float:
    """p of `wins` of n if each is won with probability ½; two-sided unless told otherwise.

    >>> sign_test(5, 5, one_sided=True), sign_test(8, 8)
    (0.03125, 0.0078125)
    """
    if not n:
        return 1.0

    def at_least(k: int) -> float:
        return float(sum(math.comb(n, i) for i in range(k, n + 1)) / 2**n)

    return at_least(wins) if one_sided else min(1.0, 2 * at_least(max(wins, n - wins)))


def holm(p: Floats) -> Floats:
    """Holm's adjustment of p-values for their number; NaN is not counted.

    >>> holm(np.array([0.01, 0.04, np.nan, 0.03])).round(2).tolist()
    [0.03, 0.06, nan, 0.06]
    """
    adjusted = np.full(len(p), NAN)
    known = np.flatnonzero(~np.isnan(p))
    order = known[np.argsort(p[known], kind="stable")]
    adjusted[order] = np.minimum(1, np.maximum.accumulate(p[order] * (len(order) - np.arange(len(order)))))
    return adjusted


def hochberg(p: Floats) -> Floats:
    """Hochberg's adjustment of independent p-values for their number: like Holm's, but if the largest is below 5 %, all are.

    >>> hochberg(np.array([0.031, 0.031, 0.031])).round(3).tolist(), hochberg(np.array([0.01, 0.5])).round(2).tolist()
    ([0.031, 0.031, 0.031], [0.02, 0.5])
    """
    order = np.argsort(p, kind="stable")[::-1]
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum.accumulate(p[order] * (1 + np.arange(len(p))))
    return np.minimum(adjusted, 1.0)


def band_factor(moves: Floats, freedom: float) -> float:
    """Return the factor that turns 95 % intervals of each layer into a band that holds all layers in 95 %: the max-t bootstrap.

    Each draw gives every group of documents a random weight, the same in all layers, and finds the layer that moves farthest in its own
    standard errors. Layers that move together need little more than one layer; independent ones need Bonferroni's factor.

    Args:
        moves: (groups, layers) how far a layer's number moves when a group of documents is left out.
        freedom: degrees of freedom of Student's interval of each layer.

    >>> together = np.tile(np.random.default_rng(0).normal(size=(64, 1)), 13)
    >>> round(band_factor(together, 63), 2), round(band_factor(np.random.default_rng(0).normal(size=(64, 13)), 63), 2)
    (1.0, 1.48)
    """
    lengths = np.sqrt((moves**2).sum(0))
    units = moves[:, lengths > 0] / lengths[lengths > 0]
    if units.shape[1] < 2:
        return 1.0
    weights, scale = _draw_weights(len(units), freedom)
    # In parts, to save memory: all pairs of the blocks of a large model are a thousand columns.
    farthest = np.concatenate([np.abs(weights[at : at + ROWS] @ units).max(1) for at in range(0, DRAWS, ROWS)])
    farthest /= scale
    factor = float(np.quantile(farthest, 1 - LEVEL)) / upper_quantile(LEVEL / 2, freedom)
    # Random draws may overshoot what is possible: 1 for layers that move as one, Bonferroni's factor for any dependence.
    return min(max(factor, 1.0), widening(units.shape[1], freedom))


@lru_cache(maxsize=1)  # every model of a run asks for the same draws, and drawing takes longer than using them
def _draw_weights(groups: int, freedom: float) -> tuple[Floats, Floats]:
    """Random weights of the groups (draws, groups), and for each draw the factor by which its standard errors are wrong."""
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((DRAWS, groups))
    if not np.isfinite(freedom):
        return weights, np.ones(DRAWS)
    # The standard errors are estimated too. They come from the same documents in all layers, so one χ² per draw serves all of them.
    return weights, np.sqrt(rng.chisquare(freedom, DRAWS) / freedom)


def exact_permutation(values: Sequence[float], is_decoder: Sequence[bool]) -> float:
    """Two-sided p of the difference between the means of two groups of models, over all ways to label the same number of them decoders.

    This is the fraction of all C(n, k) relabellings whose difference of means is at least as large, in size, as the observed one. Models
    are the units: the test asks whether the labels matter, and the layers or documents of a model are no further evidence. NaN with fewer
    than three models in a group, which can decide nothing.

    >>> exact_permutation([0.5, 0.6, 0.7, 0.1, 0.2, 0.0], [True, True, True, False, False, False])
    0.1
    """
    numbers, labels = np.asarray(values, dtype=np.float64), np.asarray(is_decoder, dtype=bool)
    if numbers.ndim != 1 or numbers.shape != labels.shape:
        raise IsoscopeError(f"A permutation test takes one label a value; got {numbers.shape} values and {labels.shape} labels.")
    if not np.isfinite(numbers).all():
        raise IsoscopeError("A permutation test takes numbers only, and one of these is not defined; leave that model out.")
    n, k = len(numbers), int(labels.sum())
    if min(k, n - k) < FEWEST_PER_GROUP:
        return float("nan")
    if comb(n, k) > MOST_RELABELLINGS:
        raise IsoscopeError(f"{n} models have {comb(n, k):,} relabellings, more than can be counted out; compare fewer.")
    # The difference of means rises with the sum over the chosen, so the sum's distance from its mean orders relabellings alike.
    chosen = np.array(list(combinations(range(n), k)))
    far = np.abs(numbers[chosen].sum(1) - k * numbers.mean())
    observed = abs(float(numbers[labels].sum() - k * numbers.mean()))
    # Relabellings that tie with the observed one must count, whatever rounding does to their sums.
    return float(np.mean(far >= observed - 1e-12 * max(observed, float(np.abs(numbers).max()))))
