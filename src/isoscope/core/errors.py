"""What isoscope says when it cannot go on, and what it says when it can."""

from __future__ import annotations


class IsoscopeError(Exception):
    """An error the user can fix. The message states what was expected, what was given and what to do.

    The command line prints the sentence and exits with its code; a traceback is shown only with ISOSCOPE_DEBUG=1.
    """

    code = 2
    """1 where the work was done but for a part."""


class IsoscopeWarning(UserWarning):
    """Something that moves a number and that the user should know (zero vectors left out, few documents, …)."""


def nearest(name: str, known: list[str]) -> str:
    """`, did you mean X?` for the nearest known name, or nothing.

    >>> nearest("mean_cosin", ["mean_cosine", "mean_norm"])
    ', did you mean mean_cosine?'
    """
    import difflib

    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f", did you mean {close[0]}?" if close else ""


def first_line(error: BaseException) -> str:
    """The first line of an exception's text without its full stop, or the name of its type: a reason to quote in a sentence of ours.

    >>> first_line(ValueError("bad magic.")), first_line(EOFError())
    ('bad magic', 'EOFError')
    """
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
