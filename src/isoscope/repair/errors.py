"""What repair says when it cannot go on."""

from __future__ import annotations

from isoscope.core.errors import IsoscopeError


class RepairError(IsoscopeError, ValueError):
    """A mistake that the user can mend; a ValueError too, which is what scikit-learn's pipelines and searches expect."""


def parameter_error(name: str, expected: str, got: object) -> RepairError:
    """An error in scikit-learn's words.

    >>> str(parameter_error("k", "an int of at least 0", -1))
    "The 'k' parameter must be an int of at least 0. Got -1 instead."
    """
    return RepairError(f"The {name!r} parameter must be {expected}. Got {got!r} instead.")
