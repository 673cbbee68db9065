"""The score that the mean query and the mean key make."""

from __future__ import annotations

import numpy as np

from isoscope.core.number import POPULATION, Number
from isoscope.statistics.attention_cloud import AttentionCloud
from isoscope.statistics.metric import metric


@metric(reads=("queries_keys",), range=(-np.inf, np.inf), interval_about=POPULATION, title="⟨Q̄, K̄⟩ in logits", at_least=1)
def qk_dot(cloud: AttentionCloud) -> Number:
    """What the drift of queries and keys adds to every score of a head, in logits.

    ``scale · ⟨Q̄, K̄⟩`` with the model's own scale, after a norm of queries and keys, if there is one, and before rotary. It cancels in
    softmax. Range −∞ to ∞. Null 0, with standard deviation scale · ‖Q̄‖‖K̄‖/√e: two directions by chance.

    Godey, de la Clergerie and Sagot (2024), Figure 14.
    """
    q, k = cloud.queries.moments.mean, cloud.keys.moments.mean
    value, low, high = cloud.of_means(lambda q, k: np.asarray(cloud.scale * (q * k).sum(-1)), (-np.inf, np.inf))
    chance = abs(cloud.scale) * float(np.sqrt((q @ q) * (k @ k) / cloud.d))
    return Number(value, n=cloud.n, d=cloud.d, low=low, high=high, null=0.0, null_sd=chance)
