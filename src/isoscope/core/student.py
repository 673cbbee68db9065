"""Student's t: quantiles, tails, and the half-widths of intervals made of them."""

from __future__ import annotations

import math

LEVEL = 0.05
"""How often chance may exceed a threshold, or an interval miss what it is of."""


def margin(error: float, freedom: float) -> float:
    """Half of Student's 95 % interval of an estimate with this standard error and this many degrees of freedom.

    >>> round(margin(1.0, 10), 3), round(margin(1.0, 1e9), 3)
    (2.228, 1.96)
    """
    return upper_quantile(LEVEL / 2, freedom) * error


def widening(parts: int, freedom: float = math.inf) -> float:
    """How much wider the 95 % intervals of several numbers must be to hold all at once (Bonferroni), for this many degrees of freedom.

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
