"""Scores before softmax, and the part of them that comes from the drift of queries and keys.

Queries and keys are taken after their norm, if the model has one, and before rotary.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from isoscope.core.number import POPULATION, THIS_N, Number
from isoscope.core.numerics import Floats
from isoscope.estimation.metric import Curve, Question, metric, series
from isoscope.estimation.site_clouds import AttentionCloud
from isoscope.statistics.attention_statistics import EDGES

_score = partial(metric, reads=("attention",), interval_about=POPULATION, question=Question.ATTENTION_SHARPNESS, at_least=1)
_drift = partial(metric, reads=("queries_keys",), question=Question.QUERIES_AND_KEYS, at_least=1)


@_score(range=(0.0, np.inf), title="Score spread")
def score_sd(cloud: AttentionCloud) -> Number:
    """The standard deviation of all scores before softmax, within rows and between them.

    Range 0 to ∞. Null 0, that of uniform rows. Only the part within rows (`score_row_sd`) reaches the attention.
    """
    return _number(cloud, lambda t: np.sqrt(np.maximum(t["score2"] / t["open"] - (t["score"] / t["open"]) ** 2, 0.0)), at_least=0.0)


@_score(range=(0.0, np.inf), title="Score spread within rows")
def score_row_sd(cloud: AttentionCloud) -> Number:
    """How far the scores of one row lie apart before softmax: only this makes attention sharp.

    ``√(mean over rows of the variance of the row's scores)``. The level that all scores of a row share cancels in softmax and is left out.

    Range 0 to ∞. Null 0, that of uniform rows; while it is small, a row's entropy is ln(open) − sd²/2.
    """
    return _number(cloud, lambda t: np.sqrt(t["variance"] / t["rows"]), at_least=0.0)


@_score(range=(-np.inf, np.inf), title="Score offset")
def score_offset(cloud: AttentionCloud) -> Number:
    """The level of scores before softmax, which cancels in every row and makes no attention sharper.

    The mean over rows of the mean of the row's scores; about ⟨Q̄,K̄⟩ in logits. Range −∞ to ∞. Null 0.
    """
    return _number(cloud, lambda t: t["mean"] / t["rows"], at_least=-np.inf)


@series(reads=("scores",), title="Scores")
def score_histogram(cloud: AttentionCloud) -> Curve:
    """A histogram of a head's scores before softmax: bin centres, the part of the scores in each, and the bins' widths.

    Bins grow with the score, 16 to every doubling; empty ones outside the range of the scores are left out. A run counts eight rows of
    each long sequence, whatever the policy.

    Godey, de la Clergerie and Sagot (2024), Figure 7.
    """
    assert cloud.histogram is not None
    filled = np.flatnonzero(cloud.histogram)
    if not len(filled):
        return np.zeros(0), np.zeros(0), np.zeros(0)
    bins = slice(filled[0], filled[-1] + 1)
    counts = cloud.histogram[bins]
    return ((EDGES[1:] + EDGES[:-1]) / 2)[bins], counts / counts.sum(), np.diff(EDGES)[bins]


def _number(cloud: AttentionCloud, estimate: Callable[[dict[str, Floats]], Floats], *, at_least: float) -> Number:
    value, low, high = cloud.rows_estimate(estimate, (at_least, np.inf))
    return Number(value, n=cloud.n, d=cloud.d, low=low, high=high, null=0.0)


@_drift(range=(-1.0, 1.0), interval_about=THIS_N, title="Cosine of Q̄ and K̄")
def qk_cosine(cloud: AttentionCloud) -> Number:
    """Whether a head's queries and keys drift the same way: 1 if their means agree, −1 if they are opposite.

    ``cos(Q̄, K̄)``, after a norm of queries and keys, if there is one, and before rotary. Range −1 to 1. Null 0, with standard deviation
    1/√e in a head of e dimensions.

    Godey, de la Clergerie and Sagot (2024), Figure 13.
    """

    def cosine(q: Floats, k: Floats) -> Floats:
        return np.asarray((q * k).sum(-1) / np.sqrt((q * q).sum(-1) * (k * k).sum(-1)))

    q, k = cloud.queries.moments.mean, cloud.keys.moments.mean
    if not q.any() or not k.any():
        return Number(np.nan, n=cloud.n, d=cloud.d, note="the mean query or the mean key is zero")
    value, low, high = cloud.means_estimate(cosine, (-1.0, 1.0))
    return Number(min(max(value, -1.0), 1.0), n=cloud.n, d=cloud.d, low=low, high=high, null=0.0, null_sd=cloud.d**-0.5)


@_drift(range=(-np.inf, np.inf), interval_about=POPULATION, title="⟨Q̄, K̄⟩ in logits")
def qk_dot(cloud: AttentionCloud) -> Number:
    """The amount that the drift of queries and keys adds to every score of a head, in logits.

    ``scale · ⟨Q̄, K̄⟩`` with the model's own scale, after a norm of queries and keys, if there is one, and before rotary. It cancels in
    softmax. Range −∞ to ∞. Null 0, with standard deviation scale · ‖Q̄‖‖K̄‖/√e: two directions by chance.

    Godey, de la Clergerie and Sagot (2024), Figure 14.
    """
    q, k = cloud.queries.moments.mean, cloud.keys.moments.mean
    value, low, high = cloud.means_estimate(lambda q, k: np.asarray(cloud.scale * (q * k).sum(-1)), (-np.inf, np.inf))
    chance = abs(cloud.scale) * float(np.sqrt((q @ q) * (k @ k) / cloud.d))
    return Number(value, n=cloud.n, d=cloud.d, low=low, high=high, null=0.0, null_sd=chance)


@_drift(range=(0.0, 1.0), interval_about=THIS_N, title="Sharpening by drift")
def drift_sharpening(cloud: AttentionCloud) -> Number:
    """How much of the spread of scores within rows comes from the mean query, and not from the differences between queries.

    ``Q̄ᵀΣ_KQ̄ / (Q̄ᵀΣ_KQ̄ + tr Σ_QΣ_K)``: the denominator is the pooled row variance of scores. After a norm of queries and keys,
    if there is one, and before rotary. The interval is that of Q̄, with both covariances fixed.

    Range 0 to 1. Null 1/(n + 1): the value that n queries without drift give by chance.
    """
    second = cloud.queries.moments.second, cloud.keys.moments.second
    n = cloud.queries.n
    if second[0] is None or second[1] is None or min(n, cloud.keys.n) < 2:
        return Number(np.nan, n=cloud.n, d=cloud.d, note="needs second moments of at least two queries and two keys")
    key_covariance = second[1].covariance
    rest = float((second[0].covariance * key_covariance).sum())  # tr(Σ_Q Σ_K) of symmetric matrices, without their product

    def share(q: Floats, _: Floats) -> Floats:
        drift = ((q @ key_covariance) * q).sum(-1)
        return np.asarray(drift / (drift + rest))

    mean = cloud.queries.moments.mean
    if not mean @ key_covariance @ mean + rest > 0:
        return Number(np.nan, n=cloud.n, d=cloud.d, note="all scores of a row are equal")
    value, low, high = cloud.means_estimate(share, (0.0, 1.0))
    return Number(value, n=cloud.n, d=cloud.d, low=low, high=high, null=1 / (n + 1))
