"""Errors of a repair, worded as scikit-learn words its own."""

from __future__ import annotations

from isoscope.core.errors import IsoscopeError


class RepairError(IsoscopeError, ValueError):
    """An error the user can fix. It is a ValueError too, which scikit-learn's pipelines and searches expect."""


def parameter_error(name: str, expected: str, got: object) -> RepairError:
    """The error for a parameter with a wrong value.

    >>> str(parameter_error("k", "an int of at least 0", -1))
    "The 'k' parameter must be an int of at least 0. Got -1 instead."
    """
    return RepairError(f"The {name!r} parameter must be {expected}. Got {got!r} instead.")
