"""The drift of queries and keys: whether their means agree, what that adds to scores, and how much of the sharpness it makes.

Queries and keys are taken after their norm, if the model has one, and before rotary.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from isoscope.core.number import POPULATION, THIS_N, Number
from isoscope.core.numerics import Floats
from isoscope.estimation.attention_cloud import AttentionCloud
from isoscope.estimation.declaration import Question
from isoscope.estimation.metric import metric

_drift = partial(metric, reads=("queries_keys",), question=Question.QUERIES_AND_KEYS, at_least=1)


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
    value, low, high = cloud.of_means(cosine, (-1.0, 1.0))
    return Number(min(max(value, -1.0), 1.0), n=cloud.n, d=cloud.d, low=low, high=high, null=0.0, null_sd=cloud.d**-0.5)


@_drift(range=(-np.inf, np.inf), interval_about=POPULATION, title="⟨Q̄, K̄⟩ in logits")
def qk_dot(cloud: AttentionCloud) -> Number:
    """The amount that the drift of queries and keys adds to every score of a head, in logits.

    ``scale · ⟨Q̄, K̄⟩`` with the model's own scale, after a norm of queries and keys, if there is one, and before rotary. It cancels in
    softmax. Range −∞ to ∞. Null 0, with standard deviation scale · ‖Q̄‖‖K̄‖/√e: two directions by chance.

    Godey, de la Clergerie and Sagot (2024), Figure 14.
    """
    q, k = cloud.queries.moments.mean, cloud.keys.moments.mean
    value, low, high = cloud.of_means(lambda q, k: np.asarray(cloud.scale * (q * k).sum(-1)), (-np.inf, np.inf))
    chance = abs(cloud.scale) * float(np.sqrt((q @ q) * (k @ k) / cloud.d))
    return Number(value, n=cloud.n, d=cloud.d, low=low, high=high, null=0.0, null_sd=chance)


@_drift(range=(0.0, 1.0), interval_about=THIS_N, title="Sharpening by drift")
def drift_sharpening(cloud: AttentionCloud) -> Number:
    """How much of the spread of scores within rows comes from the mean query, and not from what queries differ in.

    ``Q̄ᵀΣ_KQ̄ / (Q̄ᵀΣ_KQ̄ + tr Σ_QΣ_K)``: the pooled row variance of scores is the sum below the line. After a norm of queries and
    keys, if there is one, and before rotary. The interval is that of Q̄, with both covariances held.

    Range 0 to 1. Null 1/(n + 1): what n queries without drift give by chance.
    """
    second = cloud.queries.moments.second, cloud.keys.moments.second
    n = cloud.queries.n
    if second[0] is None or second[1] is None or min(n, cloud.keys.n) < 2:
        return Number(np.nan, n=cloud.n, d=cloud.d, note="needs second moments of at least two queries and two keys")
    key_covariance = second[1].covariance
    rest = float((second[0].covariance * key_covariance).sum())

    def share(q: Floats, _: Floats) -> Floats:
        drift = ((q @ key_covariance) * q).sum(-1)
        return np.asarray(drift / (drift + rest))

    mean = cloud.queries.moments.mean
    if not mean @ key_covariance @ mean + rest > 0:
        return Number(np.nan, n=cloud.n, d=cloud.d, note="all scores of a row are equal")
    value, low, high = cloud.of_means(share, (0.0, 1.0))
    return Number(value, n=cloud.n, d=cloud.d, low=low, high=high, null=1 / (n + 1))
