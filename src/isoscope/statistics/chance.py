"""What chance does: quantiles of the cosine of one pair of isotropic vectors and of the largest of many, and margins of error."""

from __future__ import annotations

from functools import lru_cache

LEVEL = 0.05
"""How often chance may exceed a threshold, or an interval miss what it is of."""


def margin(error: float, freedom: float) -> float:
    """Half of Student's 95 % interval of an estimate with this standard error and so many degrees of freedom.

    >>> round(margin(1.0, 10), 3), round(margin(1.0, 1e9), 3)
    (2.228, 1.96)
    """
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 1 - LEVEL / 2)) * error


@lru_cache
def one_pair(d: int, q: float = 1 - LEVEL) -> float:
    """The q-quantile of the cosine of *one pair* of isotropic vectors: (1 + c)/2 ~ Beta((d − 1)/2, (d − 1)/2).

    >>> [round(one_pair(d), 4) for d in (16, 768, 4096)]
    [0.4124, 0.0594, 0.0257]
    """
    from scipy.special import betaincinv

    return float(2 * betaincinv((d - 1) / 2, (d - 1) / 2, q) - 1)


def head_threshold(d: int, heads: int) -> float:
    """|cos(Q̄, K̄)| that isotropic means of `heads` heads exceed anywhere with 5 % chance at most (Bonferroni).

    >>> round(head_threshold(64, 144), 3)
    0.43
    """
    return one_pair(d, 1 - LEVEL / heads / 2)
