"""The standard deviation of the cosine over all pairs."""

from __future__ import annotations

import numpy as np

from isoscope.core.number import Number
from isoscope.statistics.cloud import Cloud
from isoscope.statistics.metric import metric


@metric(reads=("cosine",), range=(0.0, 1.0), title="Standard deviation of the cosine")
def cosine_sd(cloud: Cloud) -> Number:
    """How much the cosine of two points varies from pair to pair: 1/√d under isotropy, 0 where every pair has the same.

    The square root of ``(‖Σuuᵀ‖²_F − n) / (n(n−1)) − mean_cosine²``, over all pairs i ≠ j, exactly. It is computed around a shift
    c, with w = u − c: the two terms agree to many digits in a narrow cone, and their difference would be rounding.

    Range 0 to 1. Null 1/√d.
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
