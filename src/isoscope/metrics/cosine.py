"""The cosine of two points: its mean over all pairs, between and within items and around the mean, and its standard deviation."""

from __future__ import annotations

from functools import partial

import numpy as np

from isoscope.core.number import POPULATION, THIS_N, Number
from isoscope.core.numerics import Floats
from isoscope.estimation.cloud import Cloud
from isoscope.estimation.declaration import Question
from isoscope.estimation.metric import Curve, metric, series
from isoscope.statistics.jackknife_groups import GROUPS, Groups, Totals, between_cosine_of
from isoscope.statistics.kernel import Sums

_cosine = partial(metric, reads=("directions",), wants=("groups",), range=(-1.0, 1.0), question=Question.DIRECTIONS)


@_cosine(interval_about=POPULATION, title="Mean cosine between items")
def between_cosine(cloud: Cloud) -> Number:
    """The average cosine of two points drawn from different documents: what "two representations of the corpus" means.

    ``(‖Σu‖² − Σ_item‖S_item‖²) / (n² − Σn_item²)`` with S_item an item's Σu. Pairs within an item are left out, because they bias
    the average over all pairs by O(1/items). In a matrix every row is an item, and this is `mean_cosine`.

    Range −1 to 1. Null 0, with standard deviation √(2/(d·pairs)).

    >>> between_cosine([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    0.3333333333333333
    """
    if cloud.groups is None:
        return _no_groups(cloud)
    totals = cloud.groups.totals
    pairs = float(totals.alive**2 - totals.pairs)
    if pairs <= 0:
        return Number(np.nan, n=cloud.moments.alive, d=cloud.d, note="all points come from one item")
    return _number(cloud, float(between_cosine_of(totals)), pairs, cloud.grouped(between_cosine_of, bounds=(-1.0, 1.0)))


@_cosine(interval_about=POPULATION, title="Mean cosine within items")
def within_cosine(cloud: Cloud) -> Number:
    """The average cosine of two different points of the same document; above `between_cosine` by what a document shares.

    ``(Σ_item‖S_item‖² − n) / (Σn_item² − n)`` with S_item an item's Σu. Undefined if every item is one point.

    Range −1 to 1. Null 0, with standard deviation √(2/(d·pairs)).
    """
    if cloud.groups is None:
        return _no_groups(cloud)
    totals = cloud.groups.totals
    pairs = float(totals.pairs - totals.alive)
    if pairs <= 0:
        return Number(np.nan, n=cloud.moments.alive, d=cloud.d, note="every item is one point")
    return _number(cloud, float(_within(totals)), pairs, cloud.grouped(_within, bounds=(-1.0, 1.0)))


@_cosine(interval_about=THIS_N, title="Mean cosine")
def mean_cosine(cloud: Cloud) -> Number:
    """The average cosine of two different points: 0 if directions are spread evenly, 1 if all agree.

    ``(‖Σu‖² − n) / (n(n − 1))`` with u = x/‖x‖: exact, over all pairs i ≠ j. Zero vectors have no direction and are left out.

    Range −1/(n−1) to 1. Null 0, with standard deviation √(2/(d·n(n−1))): that of the *average*; one pair has 1/√d.

    Godey, de la Clergerie and Sagot (2024); Ethayarajh (2019).

    >>> mean_cosine([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    0.3333333333333333
    """
    m = cloud.moments
    n = m.alive
    if n < 2:
        return Number(np.nan, n=n, d=cloud.d, note="fewer than two points have a direction")
    value = (float(m.directions @ m.directions) - n) / (n * (n - 1))
    return _number(cloud, value, n * (n - 1), cloud.grouped(_over_all_pairs, bounds=(-1.0, 1.0)))


@metric(reads=("cosine",), range=(0.0, 1.0), title="Standard deviation of the cosine", question=Question.DIRECTIONS)
def cosine_sd(cloud: Cloud) -> Number:
    """How much the cosine of two points varies from pair to pair: 1/√d under isotropy, 0 if every pair has the same.

    The square root of ``(‖Σuuᵀ‖²_F − n) / (n(n−1)) − mean_cosine²``, over all pairs i ≠ j, exactly. It is computed around a shift
    c, with w = u − c: the two terms agree to many digits in a narrow cone, and their difference would be rounding.

    Range 0 to 1. Null 1/√d.

    >>> round(cosine_sd([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]), 3)
    0.471
    """
    moment, d = cloud.moments.cosine, cloud.d
    assert moment is not None
    n = moment.n
    if n < 2:
        return Number(np.nan, n=n, d=d, note="fewer than two points have a direction")
    if moment.points is not None:
        cosines = moment.points @ moment.points.T
        variance = float(np.var(cosines[~np.eye(n, dtype=bool)]))
    else:
        assert moment.shift is not None
        assert moment.outer is not None
        c, s, G = moment.shift, moment.total, moment.outer
        along = G @ c  # Σ (c·w) w
        first, second = float(c @ s), float(c @ along)  # Σ c·w, Σ (c·w)²
        itself = 1 - float(c @ c)  # what u·u − c·c is, for every u
        pairs = n * (n - 1)
        mean = (2 * n * first + float(s @ s) - n * itself) / pairs
        square = (2 * n * second + 2 * first**2 + float((G * G).sum()) + 4 * float(along @ s) - n * itself**2) / pairs
        variance = square - mean**2
    # Var(c²) for one pair is 3/(d(d+2)) − 1/d²; pairs are uncorrelated.
    null_sd = ((3 / (d * (d + 2)) - 1 / d**2) * 2 / (n * (n - 1))) ** 0.5 / 2 * d**0.5
    return Number(max(variance, 0.0) ** 0.5, n=n, d=d, null=d**-0.5, null_sd=null_sd)


@metric(reads=("sample",), range=(-1.0, 1.0), interval_about=THIS_N, title="Mean cosine around the mean", question=Question.COMMON_MEAN)
def centred_cosine(cloud: Cloud) -> Number:
    """The mean cosine that is left when the mean is removed: near 0 unless a few points are massive.

    `mean_cosine` of x − x̄, exactly, on the sample (all points if they fit into it), x̄ being the sample's own.

    Range −1 to 1. Null: directions uniform and norms r as observed, ``(Σ(1 − r·E[1/r])² − m) / (m(m−1))`` for m points; about −1/(m−1).

    Biś et al. (2021) remove the mean and find near-isotropy.
    """
    sample, d = cloud.drawn, cloud.d
    u = sample.points.astype(np.float64)
    longest = float(np.sqrt(np.einsum("ij,ij->i", u, u).max()))
    u -= u.mean(0)  # in place, here and below: a copy of a large sample is expensive
    norms = np.sqrt(np.einsum("ij,ij->i", u, u))
    alive = norms > 1e-12 * max(longest, 1e-300)
    m = int(alive.sum())
    if m < 2:
        return Number(np.nan, n=m, d=d, note="all points are equal")
    u, r = u if m == len(u) else u[alive], norms[alive]
    u /= r[:, None]
    total = u.sum(0)
    _, owner = np.unique(sample.unit[alive], return_inverse=True)
    ones = np.ones(m)
    groups = Groups(d)
    groups.update(owner % GROUPS, [Sums(ones, 0 * ones, u, u, np.zeros(d), ones, ones, 0)])
    low, high = Cloud(cloud.moments, groups).grouped(_over_all_pairs, bounds=(-1.0, 1.0))
    spread = float(((1 - r * (1 / r).mean()) ** 2).sum())
    pairs = m * (m - 1)
    value, null, null_sd = (float(total @ total) - m) / pairs, (spread - m) / pairs, spread * (2 / d) ** 0.5 / pairs
    return Number(value, n=m, d=d, low=low, high=high, null=null, null_sd=null_sd)


@series(reads=("groups",), title="Mean cosine between items, a group left out")
def between_cosine_left_out(cloud: Cloud) -> Curve:
    """`between_cosine` with one group of items left out: the group's number, the cosine without it, and how many points it holds.

    The interval of `between_cosine` comes from the spread of these. They also show which layers the same documents move together, so a
    claim about the highest or the lowest of all layers can allow for how many there are.
    """
    assert cloud.groups is not None
    filled, left_out = cloud.groups.left_out(between_cosine_of)
    known = np.isfinite(left_out)
    return filled[known].astype(np.float64), left_out[known], cloud.groups.counts[0, 0][filled[known]]


def _within(t: Totals) -> Floats:
    return np.asarray((t.within - t.alive) / (t.pairs - t.alive))


def _over_all_pairs(t: Totals) -> Floats:
    return np.asarray(((t.directions**2).sum(-1) - t.alive) / (t.alive * (t.alive - 1)))


def _no_groups(cloud: Cloud) -> Number:
    return Number(np.nan, n=cloud.moments.alive, d=cloud.d, note="groups of items were not kept")


def _number(cloud: Cloud, value: float, pairs: float, interval: tuple[float, float]) -> Number:
    """A mean over this many ordered pairs. Rounding may lift the mean of equal directions above 1."""
    low, high = interval
    null_sd = (2 / (cloud.d * pairs)) ** 0.5
    return Number(min(value, 1.0), n=cloud.moments.alive, d=cloud.d, low=low, high=high, null=0.0, null_sd=null_sd)
