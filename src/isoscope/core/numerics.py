"""What all numerical code shares: the type of its arrays, Student's t, and modules that numba compiles."""

from __future__ import annotations

import importlib
import math
import warnings
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isoscope.core.errors import IsoscopeWarning, first_line

Floats = NDArray[np.float64]
"""An array of float64, whatever its shape."""
LEVEL = 0.05
"""How often chance may exceed a threshold, or an interval miss the quantity that it is about."""
NO_CACHE = "cannot cache function"
"""The message of numba if there is no folder in which it may store compiled code."""


def margin(error: float, freedom: float) -> float:
    """Half of Student's 95 % interval of an estimate with this standard error and this many degrees of freedom.

    >>> round(margin(1.0, 10), 3), round(margin(1.0, 1e9), 3)
    (2.228, 1.96)
    """
    return upper_quantile(LEVEL / 2, freedom) * error


def widening(parts: int, freedom: float = math.inf) -> float:
    """How much wider the 95 % intervals of several numbers must be to hold all at once (Bonferroni), for these degrees of freedom.

    >>> round(widening(1), 3), round(widening(13), 3), round(widening(13, 5), 3)
    (1.0, 1.475, 1.975)
    """
    return upper_quantile(LEVEL / 2 / max(parts, 1), freedom) / upper_quantile(LEVEL / 2, freedom)


def upper_quantile(part: float, freedom: float = math.inf) -> float:
    """The value that Student's t exceeds with this chance; for infinite degrees of freedom, the value of the normal distribution.

    >>> round(upper_quantile(0.025), 3), round(upper_quantile(0.025, 4), 3)
    (1.96, 2.776)
    """
    from scipy.special import ndtri, stdtrit

    return -float(ndtri(part) if math.isinf(freedom) else stdtrit(freedom, part))


def upper_tail(t: float, freedom: float = math.inf) -> float:
    """The chance that Student's t exceeds `t`.

    >>> round(upper_tail(1.96), 4), round(upper_tail(2.776, 4), 4)
    (0.025, 0.025)
    """
    from scipy.special import ndtr, stdtr

    # The lower tail of −t, and not 1 minus that of t, which would lose every digit of a small chance.
    return float(ndtr(-t) if math.isinf(freedom) else stdtr(freedom, -t))


@lru_cache(maxsize=16)
def load_compiled(name: str) -> Any:
    """The module of this name, compiled by numba; None if numba is not installed, or, with a warning, if it does not work here."""
    if find_spec("numba") is None:
        return None
    try:
        importlib.import_module("numba")
    except (ImportError, OSError) as error:  # a numpy that is too new for it, or a library that is missing
        _warn_once(first_line(error))
        return None
    try:
        return importlib.import_module(name)
    except RuntimeError as error:
        if NO_CACHE not in str(error):
            raise
        _warn_once(first_line(error))
        return None


@lru_cache(maxsize=1)
def _warn_once(reason: str) -> None:
    warnings.warn(f"numba cannot be used here ({reason}); numbers are the same and come more slowly.", IsoscopeWarning, stacklevel=3)
