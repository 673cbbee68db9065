"""What chance does: quantiles of the cosine of one pair of isotropic vectors and of the largest of many, and margins of error."""

from __future__ import annotations

import math
from functools import lru_cache

LEVEL = 0.05
"""How often chance may exceed a threshold, or an interval miss what it is of."""


def margin(error: float, freedom: float) -> float:
    """Half of Student's 95 % interval of an estimate with this standard error and so many degrees of freedom.

    >>> round(margin(1.0, 10), 3), round(margin(1.0, 1e9), 3)
    (2.228, 1.96)
    """
    return upper_quantile(LEVEL / 2, freedom) * error


def widening(parts: int, freedom: float = math.inf) -> float:
    """How much wider 95 % intervals of so many numbers must be to hold all at once (Bonferroni), for this many degrees of freedom.

    >>> round(widening(1), 3), round(widening(13), 3), round(widening(13, 5), 3)
    (1.0, 1.475, 1.975)
    """
    return upper_quantile(LEVEL / 2 / max(parts, 1), freedom) / upper_quantile(LEVEL / 2, freedom)


def upper_quantile(part: float, freedom: float = math.inf) -> float:
    """What Student's t exceeds with this chance; the normal distribution where the degrees of freedom are infinite.

    >>> round(upper_quantile(0.025), 3), round(upper_quantile(0.025, 4), 3)
    (1.96, 2.776)
    """
    from scipy.special import ndtri, stdtrit

    return -float(ndtri(part) if math.isinf(freedom) else stdtrit(freedom, part))


def upper_tail(t: float, freedom: float = math.inf) -> float:
    """The chance that Student's t exceeds this.

    >>> round(upper_tail(1.96), 4), round(upper_tail(2.776, 4), 4)
    (0.025, 0.025)
    """
    from scipy.special import ndtr, stdtr

    return float(ndtr(-t) if math.isinf(freedom) else stdtr(freedom, -t))


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

    z is what the unbiased estimate of a squared mean is, in its own standard deviations, if the mean of the points is 0.

    >>> [tuple(round(x, 3) for x in clipped_square(768, power)) for power in (1.0, 0.5)]
    [(0.399, 0.595), (0.407, 0.483)]
    """
    import numpy as np
    from scipy.special import gammaincinv

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
