"""The part of sharpness that the drift of queries makes."""

from __future__ import annotations

import numpy as np

from isoscope.core.arrays import Floats
from isoscope.core.number import THIS_N, Number
from isoscope.statistics.attention_cloud import AttentionCloud
from isoscope.statistics.metric import metric


@metric(reads=("queries_keys",), range=(0.0, 1.0), interval_about=THIS_N, title="Sharpening by drift", at_least=1)
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
    spread = second[1].covariance
    rest = float((second[0].covariance * spread).sum())

    def share(q: Floats, _: Floats) -> Floats:
        drift = ((q @ spread) * q).sum(-1)
        return np.asarray(drift / (drift + rest))

    mean = cloud.queries.moments.mean
    if not mean @ spread @ mean + rest > 0:
        return Number(np.nan, n=cloud.n, d=cloud.d, note="all scores of a row are equal")
    value, low, high = cloud.of_means(share, (0.0, 1.0))
    return Number(value, n=cloud.n, d=cloud.d, low=low, high=high, null=1 / (n + 1))
