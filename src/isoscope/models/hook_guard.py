"""Carries an exception of our own hooks past the model that called them.

Hooks run inside the model's forward pass. Whoever explains a model's own failure, or a model that catches errors itself, would otherwise
take a bug of ours for one of the model's.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


class ForwardPassStopped(BaseException):
    """Ends a forward pass after a hook has failed. It is no Exception, so that no model and no `feed` takes it for one of its own."""


class HookGuard:
    """Keeps the first exception of the hooks that it wraps, until `raise_own_error` raises it outside the forward pass."""

    def __init__(self) -> None:
        self._error: Exception | None = None

    def wrap(self, hook: F) -> F:
        """The hook; where it raises, the exception is stored and the forward pass ends."""

        @functools.wraps(hook)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            try:
                return hook(*args, **kwargs)
            except Exception as error:
                self._error = self._error or error
                raise ForwardPassStopped from error

        return guarded  # type: ignore[return-value]

    def raise_own_error(self) -> None:
        """Raise the stored exception, with its traceback; nothing happens where no hook has failed."""
        if self._error is None:
            return
        error, self._error = self._error, None
        context = error.__context__
        try:
            raise error
        finally:
            error.__context__ = context  # not the ForwardPassStopped that is being handled here
