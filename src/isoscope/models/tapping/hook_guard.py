"""Keeps errors of our hooks apart from errors of the model that calls them.

Our hooks run inside the model's forward pass. A model may catch exceptions, and `model_errors_as_user_errors` turns those of a model into a
sentence to the user: both would take a bug of ours for one of the model's. So a hook's exception is stored, the forward pass is stopped,
and the exception is raised again outside.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


class ForwardPassStopped(BaseException):
    """Stops a forward pass after a hook has failed. It is no Exception, so that no model and no `feed` catches it with its own errors."""


class HookGuard:
    """Stores the first exception of the hooks that it wraps, until `raise_own_error` raises it outside the forward pass."""

    def __init__(self) -> None:
        self._error: Exception | None = None

    def wrap(self, hook: F) -> F:
        """The hook in a form that stores what it raises and stops the forward pass."""

        @functools.wraps(hook)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            try:
                return hook(*args, **kwargs)
            except Exception as error:
                # The first error is the cause; hooks that run while the pass unwinds may fail because of it.
                self._error = self._error or error
                raise ForwardPassStopped from error

        return guarded  # type: ignore[return-value]

    def raise_own_error(self) -> None:
        """Raise the stored exception with its traceback; do nothing if no hook has failed."""
        if self._error is None:
            return
        error, self._error = self._error, None
        context = error.__context__
        try:
            raise error
        finally:
            error.__context__ = context  # not the ForwardPassStopped that is being handled here
