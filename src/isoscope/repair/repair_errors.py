"""The error of repairs, and the wording of wrong parameters."""

from __future__ import annotations

import math
from numbers import Integral

from isoscope.core.errors import IsoscopeError


class RepairError(IsoscopeError, ValueError):
    """An error the user can fix. It is a ValueError too, which scikit-learn's pipelines and searches expect."""


def parameter_error(name: str, expected: str, got: object) -> RepairError:
    """The error for a parameter with a wrong value, worded as scikit-learn words its own.

    >>> str(parameter_error("k", "an int of at least 0", -1))
    "The 'k' parameter must be an int of at least 0. Got -1 instead."
    """
    return RepairError(f"The {name!r} parameter must be {expected}. Got {got!r} instead.")


def is_int(value: object, least: int, most: float = math.inf) -> bool:
    """Whether a parameter is an integer within these limits.

    >>> is_int(3, 1), is_int(0, 1), is_int(True, 0), is_int(3.0, 0)
    (True, False, False, False)
    """
    return isinstance(value, Integral) and not isinstance(value, bool) and least <= int(value) <= most
