"""The cosine of the mean query and the mean key."""

from __future__ import annotations

import numpy as np

from isoscope.core.arrays import Floats
from isoscope.core.number import THIS_N, Number
from isoscope.statistics.attention_cloud import AttentionCloud
from isoscope.statistics.metric import metric


@metric(reads=("queries_keys",), range=(-1.0, 1.0), interval_about=THIS_N, title="Cosine of Q̄ and K̄", at_least=1)
def qk_cosine(cloud: AttentionCloud) -> Number:
    """Whether a head's queries and keys drift the same way: 1 where their means agree, −1 where they are opposite.

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
