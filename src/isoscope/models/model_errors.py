"""Keeps the errors of a user's model apart from errors of ours.

What a model, its tokenizer or a library raises for a bad file becomes one sentence to the user. A bug of ours keeps its traceback, even if
it appears in a hook that runs inside the model's forward pass.
"""

from __future__ import annotations

import contextlib
import functools
import pickle
import shlex
import traceback
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from isoscope.core.errors import IsoscopeError
from isoscope.core.model_groups import UNTRAINED
from isoscope.models.naming.model_name import ModelReference

PANIC = "PanicException"
"""The exception of a library written in Rust, such as tokenizers, for a value it did not expect. It derives from BaseException."""
LONGEST_REASON = 400
"""Characters of a library's message; some repeat the whole value that they refuse."""
CANNOT_RUN = "cannot be run"
MODEL_CODE = ("isoscope.models.loading.architectures", "isoscope.training.network")
"""Networks written here. They read a stranger's configuration as those of transformers do, so their errors are the model's."""
PASSED_ON = "__torch_function__"
"""Our methods of this name call a torch function on behalf of the model; an exception of that function is the model's."""

F = TypeVar("F", bound=Callable[..., Any])


@contextlib.contextmanager
def model_errors_as_user_errors(reference: ModelReference, failure: str = "") -> Iterator[None]:
    """Turn an exception that a library raises for a bad checkpoint into an `IsoscopeError`.

    Only calls into transformers, tokenizers, safetensors and gguf, and the model's own forward pass, belong inside. An exception raised
    by a line of ours all the same, in a hook or a callback, is a bug of ours and passes unchanged.
    """
    try:
        yield
    except IsoscopeError:
        raise
    except Exception as error:
        if is_raised_by_us(error):
            raise
        raise _as_user_error(error, reference, failure) from error
    except BaseException as error:
        if type(error).__name__ != PANIC:
            raise
        raise _as_user_error(error, reference, failure) from error


def is_raised_by_us(error: BaseException) -> bool:
    """Whether the line that raised is one of isoscope's, networks aside."""
    # The last frame is where the exception was raised: frames of ours further out only called the library.
    module = ""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        name = str(frame.f_globals.get("__name__", ""))
        if not (name.startswith("isoscope.") and frame.f_code.co_name == PASSED_ON):
            module = name
    return module.startswith("isoscope.") and not module.startswith(MODEL_CODE)


def _as_user_error(error: BaseException, reference: ModelReference, failure: str) -> IsoscopeError:
    """The sentence for a library's exception. The types of transformers, tokenizers, safetensors and gguf have nothing in common."""
    text, kind = str(error), type(error).__name__
    if isinstance(error, pickle.UnpicklingError) or "weights_only" in text or "Unpickl" in kind + text:
        return IsoscopeError(f"{reference.spec} holds a pickle that is more than weights; it was not opened. Ask for safetensors.")
    if isinstance(error, ImportError):
        return IsoscopeError(f"{reference.spec} needs a package that is not installed: {first_line(error)}.")
    if "trust_remote_code" in text:
        return own_code_error(reference)
    if kind == "SafetensorError":
        return IsoscopeError(f"The weights of {reference.spec} are damaged ({first_line(error)}); copy or download its .safetensors again.")
    failure = failure or ("cannot be read as a GGUF file" if reference.gguf else "cannot be loaded")
    return IsoscopeError(f"{reference.spec} {failure}: {first_line(error)[:LONGEST_REASON]}.")


def first_line(error: BaseException) -> str:
    """The first line of a library's message, or the first two if the first only introduces the second."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return " ".join(lines[: 2 if lines[0].endswith(":") else 1]).rstrip(".:")


def own_code_error(reference: ModelReference) -> IsoscopeError:
    """The error for a checkpoint that needs code of its own."""
    name = reference.name.removeprefix(UNTRAINED)
    return IsoscopeError(
        f"{reference.spec} brings its own code; read it, and if you trust it, use --trust-remote-code {shlex.quote(name)}."
    )


class ForwardPassStopped(BaseException):
    """Stops a forward pass after a hook has failed. It is no Exception, so that no model and no `feed` catches it with its own errors."""


class HookGuard:
    """Stores the first exception of the hooks that it wraps, until `raise_own_error` raises it outside the forward pass.

    Our hooks run inside the model's forward pass. A model may catch exceptions, and `model_errors_as_user_errors` turns those of a model
    into a sentence to the user: both would take a bug of ours for one of the model's.
    """

    def __init__(self) -> None:
        self._error: Exception | None = None

    def wrap(self, hook: F) -> F:
        """The hook in a form that stores what it raises and stops the forward pass."""

        @functools.wraps(hook)
        def guarded_hook(*args: Any, **kwargs: Any) -> Any:
            try:
                return hook(*args, **kwargs)
            except Exception as error:
                # The first error is the cause; hooks that run while the pass unwinds may fail because of it.
                self._error = self._error or error
                raise ForwardPassStopped from error

        return guarded_hook  # type: ignore[return-value]

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
