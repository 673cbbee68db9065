"""What isoscope says when it cannot go on, and what it says when it can."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class IsoscopeError(Exception):
    """A mistake that the user can mend: one sentence that says what was expected, what was got and what to do.

    The command line prints the sentence and exits with its code; no traceback is shown.
    """

    code = 2
    """1 where the work was done but for a part."""


class IsoscopeWarning(UserWarning):
    """Something that moves a number and that the user should know (zero vectors left out, few documents, …)."""


STRANGE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What comes of values that nobody thought of, such as those of tables that somebody else wrote."""


def tried(left_out: str, act: Callable[[], T]) -> T | None:
    """What `act` answers; None, with a warning that says what is left out, where strange values make that impossible.

    >>> tried("The mean is left out", lambda: sum([1, 2]) / 2)
    1.5
    """
    try:
        return act()
    except STRANGE as error:
        warnings.warn(IsoscopeWarning(f"{left_out} ({f'{type(error).__name__}: {error}'[:200]})."), stacklevel=3)
        return None


def nearest(name: str, known: list[str]) -> str:
    """`, did you mean X?` for the nearest known name, or nothing.

    >>> nearest("mean_cosin", ["mean_cosine", "mean_norm"])
    ', did you mean mean_cosine?'
    """
    import difflib

    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f", did you mean {close[0]}?" if close else ""
