"""The cosine of two points: its mean over all pairs, between and within items, around the mean, by dimension, and as a score."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from isoscope.core.number import POPULATION, THIS_N, Number
from isoscope.core.numerics import Floats
from isoscope.estimation.cloud import Cloud
from isoscope.estimation.metric import Curve, Question, metric, series
from isoscope.estimation.sample_documents import ROWS
from isoscope.statistics.jackknife_groups import GROUPS, Groups, Totals, between_cosine_of

_cosine = partial(metric, reads=("directions",), wants=("groups",), range=(-1.0, 1.0), question=Question.DIRECTIONS)
SCORE_RANGE = 0.0, 2.5
LARGEST = 10
_share = partial(metric, reads=("sums",), wants=("groups",), range=(0.0, np.inf), interval_about=THIS_N, question=Question.COORDINATES)


@_cosine(interval_about=POPULATION, title="Mean cosine between items")
def between_cosine(cloud: Cloud) -> Number:
    """The average cosine of two points drawn from different documents: what "two representations of the corpus" means.

    ``(‖Σu‖² − Σ_item‖S_item‖²) / (n² − Σn_item²)`` with S_item an item's Σu. Pairs within an item are left out, because they bias
    the average over all pairs by O(1/items). In a matrix every row is an item, and this is `mean_cosine`.

    Range −1 to 1. Null 0, with standard deviation √(2/(d·pairs)).

    >>> between_cosine([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    0.333 [-1.00, 1.00], isotropic 0.000
    """
    if cloud.groups is None:
        return _undefined(cloud, "groups of items were not kept")
    t = cloud.groups.totals
    return _mean_over_pairs(cloud, between_cosine_of, float(t.alive**2 - t.pairs), "all points come from one item")


@_cosine(interval_about=POPULATION, title="Mean cosine within items")
def within_cosine(cloud: Cloud) -> Number:
    """The average cosine of two different points of the same document; above `between_cosine` by what a document shares.

    ``(Σ_item‖S_item‖² − n) / (Σn_item² − n)`` with S_item an item's Σu. Undefined if every item is one point.

    Range −1 to 1. Null 0, with standard deviation √(2/(d·pairs)).
    """
    if cloud.groups is None:
        return _undefined(cloud, "groups of items were not kept")
    t = cloud.groups.totals
    return _mean_over_pairs(cloud, _within_cosine_of, float(t.pairs - t.alive), "every item is one point")


@_cosine(interval_about=THIS_N, title="Mean cosine")
def mean_cosine(cloud: Cloud) -> Number:
    """The average cosine of two different points: 0 if directions are spread evenly, 1 if all agree.

    ``(‖Σu‖² − n) / (n(n − 1))`` with u = x/‖x‖: exact, over all pairs i ≠ j. Zero vectors have no direction and are left out.

    Range −1/(n−1) to 1. Null 0, with standard deviation √(2/(d·n(n−1))): that of the *average*; one pair has 1/√d.

    Godey, de la Clergerie and Sagot (2024); Ethayarajh (2019).

    >>> mean_cosine([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    0.333 [-1.00, 1.00], isotropic 0.000
    """
    m = cloud.moments
    pairs = m.alive * (m.alive - 1)
    # Exact from the moments of all points; the sums of groups add up to the same, but for the last digits.
    value = (float(m.directions @ m.directions) - m.alive) / pairs if pairs else np.nan
    return _mean_over_pairs(cloud, _mean_cosine_of, pairs, "fewer than two points have a direction", value=value)


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
        return _undefined(cloud, "fewer than two points have a direction")
    if moment.points is not None:
        cosines = moment.points @ moment.points.T
        variance = float(np.var(cosines[~np.eye(n, dtype=bool)]))
    else:
        assert moment.shift is not None
        assert moment.outer is not None
        # ‖Σuuᵀ‖² and ‖Σu‖⁴ agree to many digits in a narrow cone. About a shift c, only small sums are subtracted from each other.
        c, s, G = moment.shift, moment.total, moment.outer
        along = G @ c  # Σ (c·w) w
        first, second = float(c @ s), float(c @ along)  # Σ c·w, Σ (c·w)²
        itself = 1 - float(c @ c)  # u·u − c·c, the same for every u
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
    d, documents = cloud.d, cloud.documents
    longest = float(np.sqrt(documents.squared_lengths().max()))
    # The sample's own mean, not that of all points: their difference would be left in every point and look like a small drift.
    mean = documents.points.mean(0)
    norms = np.sqrt(documents.squared_lengths(mean))
    alive = norms > 1e-12 * max(longest, 1e-300)
    m = int(alive.sum())
    if m < 2:
        return Number(np.nan, n=m, d=d, note="all points are equal")
    r = norms[alive]
    inverse = np.where(alive, 1 / np.where(alive, norms, 1.0), 0.0)
    directions = np.empty((len(documents.hashes), d))
    for first, last in documents.runs(ROWS):
        rows = slice(documents.starts[first], documents.starts[last])
        documents.sum((documents.points[rows] - mean) * inverse[rows, None], first, last, out=directions[first:last])
    total = directions.sum(0)
    # The jackknife needs groups of centred directions, which no pass has made: the documents that have one, in turn.
    counts = documents.sum(alive.astype(np.float64))
    filled = counts > 0
    groups, own = Groups(d), (np.cumsum(filled) - 1)[filled] % GROUPS
    for sums, values in ((groups.counts[0, 0], counts), (groups.counts[1, 0], counts), (groups.sums[1, 0], directions)):
        np.add.at(sums, own, values[filled])
    low, high = Cloud(cloud.moments, groups).jackknife_interval(_mean_cosine_of, bounds=(-1.0, 1.0))
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


def _within_cosine_of(t: Totals) -> Floats:
    return np.asarray((t.within - t.alive) / (t.pairs - t.alive))


def _mean_cosine_of(t: Totals) -> Floats:
    return np.asarray(((t.directions**2).sum(-1) - t.alive) / (t.alive * (t.alive - 1)))


def _undefined(cloud: Cloud, reason: str) -> Number:
    return Number(np.nan, n=cloud.moments.alive, d=cloud.d, note=reason)


def _mean_over_pairs(
    cloud: Cloud, estimate: Callable[[Totals], Floats], pairs: float, reason: str, *, value: float | None = None
) -> Number:
    """Return a mean cosine over this many ordered pairs; without pairs it is undefined, for the given reason."""
    if not pairs > 0:
        return _undefined(cloud, reason)
    low, high = cloud.jackknife_interval(estimate, bounds=(-1.0, 1.0))
    value = float(estimate(cloud.totals)) if value is None else value
    # Rounding may lift the mean of equal directions above 1.
    null_sd = (2 / (cloud.d * pairs)) ** 0.5
    return Number(min(value, 1.0), n=cloud.moments.alive, d=cloud.d, low=low, high=high, null=0.0, null_sd=null_sd)


def _isotropy_score_of(t: Totals, d: int) -> Floats:
    cosine = np.minimum(between_cosine_of(t), 1.0)  # rounding may lift it above
    above = np.maximum(cosine, 0.0)
    return np.asarray(1 - cosine * (1 + (1 - above) * (1 - 3 * above) / (2 * d)))


@_cosine(range=SCORE_RANGE, interval_about=POPULATION, title="Isotropy score")
def isotropy_score(cloud: Cloud) -> Number:
    """How isotropic directions are, on a scale that does not depend on the dimension: 1 if isotropic, 0 if all agree.

    ``1 − c·(1 + (1 − c)(1 − 3c)/(2d))`` with c the mean cosine of points of different documents (c = 0 in the bracket where it is
    negative). Of points b + σz with z ~ N(0, I) it is 1/(1 + ‖b‖²/(dσ²)), the part of the squared length that is not drift: the cosine
    itself falls short of that by up to 1/(2d) of it, which the bracket takes back, to 0.0005 for d ≥ 16. Blind to what is centred.

    Range 0 to 2 + 1/(2d), above 1 by chance or if directions are opposite. Null 1, with standard deviation (1 + 1/(2d))·√(2/(d·pairs)).

    Mardia and Jupp (2000): Rayleigh's test of uniform directions.

    >>> isotropy_score([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    0.667 [0.00, 2.50], isotropic 1.00
    """
    n, d = cloud.moments.alive, cloud.d
    if cloud.groups is None:
        return _undefined(cloud, "groups of items were not kept")
    t = cloud.groups.totals
    pairs = float(t.alive**2 - t.pairs)
    if pairs <= 0:
        return _undefined(cloud, "all points come from one item" if n else "no point has a direction")
    low, high = cloud.jackknife_interval(lambda t: _isotropy_score_of(t, d), bounds=SCORE_RANGE)
    null_sd = (1 + 1 / (2 * d)) * (2 / (d * pairs)) ** 0.5
    return Number(float(_isotropy_score_of(t, d)), n=n, d=d, low=low, high=high, null=1.0, null_sd=null_sd)


@_share(title="Share of the top dimension")
def top_dimension_share(cloud: Cloud) -> Number:
    """How much of the mean cosine a single "rogue" dimension carries; the note says which.

    ``CCᵢ = (sᵢ² − Σuᵢ²)/(n(n−1))``, the largest over ΣCC, s = Σu. Undefined unless the lower bound of the mean cosine is above 0.

    Range 0 to 1, and above 1 if other dimensions are negative. Null 1/d: all dimensions alike.

    Timkey and van Schijndel (2021).
    """
    return _share_of_largest(cloud, 1)


@_share(title="Share of the top three dimensions")
def top3_dimension_share(cloud: Cloud) -> Number:
    """How much of the mean cosine three "rogue" dimensions carry together; the note says which.

    As `top_dimension_share`, for the three largest. Range 0 to 1, and above 1 if other dimensions are negative. Null 3/d.

    Timkey and van Schijndel (2021).
    """
    return _share_of_largest(cloud, 3)


@series(reads=("sums",), title="Dimensions that carry the cosine")
def dimension_share(cloud: Cloud) -> Curve:
    """The ten dimensions that carry most of the mean cosine, and the share of each; nothing if the mean cosine is not above 0."""
    cosines = _cosine_by_dimension(cloud)
    mean_cosine = float(cosines.sum())
    order = np.argsort(cosines)[::-1][: LARGEST if mean_cosine > 0 else 0]
    return order.astype(float), cosines[order] / (mean_cosine if mean_cosine > 0 else 1.0), np.ones(len(order))


def _cosine_by_dimension(cloud: Cloud) -> Floats:
    """Return (d,) each dimension's part of the mean cosine, (sᵢ² − Σuᵢ²)/(n(n−1)). The parts add up to it."""
    m = cloud.moments
    return np.asarray((m.directions**2 - m.squared) / max(m.alive * (m.alive - 1), 1))


def _share_of_largest(cloud: Cloud, count: int) -> Number:
    """Return the part of the mean cosine that its `count` largest dimensions carry."""
    m, cosines = cloud.moments, _cosine_by_dimension(cloud)
    largest = np.argsort(cosines)[::-1][:count]

    def share(t: Totals) -> Floats:
        # Σuᵢ² is not kept by group, so a part left out is taken to lower it in proportion to its points.
        squared = (t.alive[..., None] / m.alive) * m.squared
        parts = (t.directions**2 - squared) / (t.alive * (t.alive - 1))[..., None]
        return np.asarray(parts[..., largest].sum(-1) / parts.sum(-1))

    if m.alive < 2 or not cosines.sum() > 0 or not cloud.jackknife_interval(_mean_cosine_of)[0] > 0:
        return _undefined(cloud, "undefined: the mean cosine is not above zero")
    low, high = cloud.jackknife_interval(share)
    value = float(cosines[largest].sum() / float(cosines.sum()))
    note = f"dimension {', '.join(str(i) for i in largest)}"
    return Number(value, n=m.alive, d=cloud.d, low=low, high=high, null=count / cloud.d, note=note)
