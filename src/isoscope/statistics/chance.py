"""What isotropic vectors exceed by chance: quantiles of the cosine of one pair, and of the largest of many."""

from __future__ import annotations

from functools import lru_cache

LEVEL = 0.05
"""How often chance may exceed a threshold."""


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
