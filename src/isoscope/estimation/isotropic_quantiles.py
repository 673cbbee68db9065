"""Chance levels: quantiles of the cosine of one pair of isotropic vectors, and of the largest of many."""

from __future__ import annotations

from functools import lru_cache

from isoscope.core.numerics import LEVEL


@lru_cache
def one_pair(d: int, q: float = 1 - LEVEL) -> float:
    """The q-quantile of the cosine of *one pair* of isotropic vectors: (1 + c)/2 ~ Beta((d − 1)/2, (d − 1)/2).

    >>> [round(one_pair(d), 4) for d in (16, 768, 4096)]
    [0.4124, 0.0594, 0.0257]
    """
    from scipy.special import betaincinv

    return float(2 * betaincinv((d - 1) / 2, (d - 1) / 2, q) - 1)


@lru_cache
def clipped_square(d: int, power: float) -> tuple[float, float]:
    """The mean and the standard deviation of max(z, 0)^power, where z = (χ²_d − d)/√(2d).

    z is the unbiased estimate of a squared mean, in its own standard deviations, if the mean of the points is 0.

    >>> [tuple(round(x, 3) for x in clipped_square(768, power)) for power in (1.0, 0.5)]
    [(0.399, 0.595), (0.407, 0.483)]
    """
    import numpy as np
    from scipy.special import gammaincinv

    # The midpoint rule over quantiles: exact to the digits shown, and the same on every machine, unlike random draws.
    middles = (np.arange(4096) + 0.5) / 4096
    z = (2 * gammaincinv(d / 2, middles) - d) / (2 * d) ** 0.5
    values = np.maximum(z, 0.0) ** power
    return float(values.mean()), float(values.std())


def head_threshold(d: int, heads: int) -> float:
    """|cos(Q̄, K̄)| that isotropic means of `heads` heads exceed anywhere with 5 % chance at most (Bonferroni).

    >>> round(head_threshold(64, 144), 3)
    0.43
    """
    return one_pair(d, 1 - LEVEL / heads / 2)
