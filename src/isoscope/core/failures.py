"""Parts of a whole that failed through a bug of ours: the others are made all the same, and nobody is left in doubt."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from isoscope.core.errors import IsoscopeError
from isoscope.core.memory import is_out_of_memory

T = TypeVar("T")


class Failures:
    """The exceptions of the parts that failed, by the name of the part.

    >>> failures = Failures()
    >>> failures.attempt("the mean", lambda: 1 / 0), failures.said("the mean"), failures.said("the sum")
    (None, 'ZeroDivisionError: division by zero', '')
    """

    def __init__(self) -> None:
        self.errors: dict[str, Exception] = {}

    def attempt(self, part: str, act: Callable[[], T]) -> T | None:
        """What `act` answers; None where it raised, which is noted. A user's mistake and a lack of memory end everything."""
        try:
            return act()
        except IsoscopeError:
            raise
        except Exception as error:
            if is_out_of_memory(error):
                raise
            self.add(part, error)
            return None

    def add(self, part: str, error: Exception) -> None:
        """Note that a part failed."""
        error.add_note(f"isoscope was making {part}")
        self.errors[part] = error

    def said(self, part: str) -> str:
        """Type and text of a part's exception; nothing where it did not fail."""
        return described(self.errors[part]) if part in self.errors else ""

    def raise_all(self, whole: str) -> None:
        """Raise what was noted, if anything, with every traceback."""
        if self.errors:
            raise ExceptionGroup(f"{len(self.errors)} parts of {whole} failed", list(self.errors.values()))


def described(error: BaseException) -> str:
    """Type and text of an exception, in a line.

    >>> described(KeyError("model"))
    "KeyError: 'model'"
    """
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]
