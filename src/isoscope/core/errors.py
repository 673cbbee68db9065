"""What isoscope says when it cannot go on, and what it says when it can."""

from __future__ import annotations


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


def nearest(name: str, known: list[str]) -> str:
    """`, did you mean X?` for the nearest known name, or nothing.

    >>> nearest("mean_cosin", ["mean_cosine", "mean_norm"])
    ', did you mean mean_cosine?'
    """
    import difflib

    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f", did you mean {close[0]}?" if close else ""
