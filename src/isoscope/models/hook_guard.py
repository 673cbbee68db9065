"""Carries an exception of our own hooks past the model that called them.

Hooks run inside the model's forward pass. Without a guard, a bug of ours would look like a failure of the model: to the code that reports
such failures to the user, and to a model that catches exceptions itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


class HookStopped(BaseException):
    """Ends a forward pass after a hook has failed. It is no Exception, so that no model and no `feed` catches it as one of its own."""


class HookGuard:
    """Stores the first exception of the hooks that it wraps, until `raise_stored` raises it outside the forward pass."""

    def __init__(self) -> None:
        self._error: Exception | None = None

    def wrap(self, hook: F) -> F:
        """Wrap a hook: if it raises, the exception is stored and the forward pass ends."""

        @functools.wraps(hook)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            try:
                return hook(*args, **kwargs)
            except Exception as error:
                # The first error is the cause; hooks that run while the pass unwinds may fail because of it.
                self._error = self._error or error
                raise HookStopped from error

        return guarded  # type: ignore[return-value]

    def raise_stored(self) -> None:
        """Raise the stored exception with its traceback, if a hook has failed."""
        if self._error is None:
            return
        error, self._error = self._error, None
        context = error.__context__
        try:
            raise error
        finally:
            error.__context__ = context  # not the HookStopped that is being handled here
