"""Failures of somebody else's model, tokenizer or file as one sentence to the user."""

from __future__ import annotations

import contextlib
import pickle
import shlex
import traceback
from collections.abc import Iterator
from typing import Any

from isoscope.core.errors import IsoscopeError
from isoscope.core.group import UNTRAINED
from isoscope.models.reference import ModelReference

PANIC = "PanicException"
"""What a library written in Rust raises where it did not expect a value, such as tokenizers; it is no Exception."""
LONGEST_REASON = 400
"""Characters of a library's message; some repeat the whole value that they did not like."""
CANNOT_RUN = "cannot be run"
MODEL_CODE = ("isoscope.models.architectures", "isoscope.training.network")
"""Networks that are written here and read a stranger's configuration as those of transformers do."""

PASSED_ON = tuple((f"isoscope.models.{module}", "__torch_function__") for module in ("attention", "channels"))
"""Lines of ours that call for a model the function of torch that the model called; what that raises is the model's."""


@contextlib.contextmanager
def model_errors_as_user_errors(reference: ModelReference, what: str = "") -> Iterator[None]:
    """Turn what a library raises for a bad checkpoint into an IsoscopeError.

    Only calls into transformers, tokenizers, safetensors and gguf, and the model's own forward pass, belong inside. What was raised by a
    line of ours all the same, in a hook or a callback, is a bug of ours and stays as it is.
    """
    try:
        yield
    except IsoscopeError:
        raise
    except Exception as error:
        if is_raised_by_us(error):
            raise
        raise _as_user_error(error, reference, what) from error
    except BaseException as error:
        if type(error).__name__ != PANIC:
            raise
        raise _as_user_error(error, reference, what) from error


def is_raised_by_us(error: BaseException) -> bool:
    """Whether the line that raised is one of isoscope's, networks aside."""
    module = ""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        name = str(frame.f_globals.get("__name__", ""))
        if (name, frame.f_code.co_name) not in PASSED_ON:
            module = name
    return module.startswith("isoscope.") and not module.startswith(MODEL_CODE)


def _as_user_error(error: BaseException, reference: ModelReference, what: str) -> IsoscopeError:
    """The sentence for what a library raised: the types of transformers, tokenizers, safetensors and gguf have nothing in common."""
    text, kind = str(error), type(error).__name__
    if isinstance(error, pickle.UnpicklingError) or "weights_only" in text or "Unpickl" in kind + text:
        return IsoscopeError(f"{reference.spec} holds a pickle that is more than weights; it was not opened. Ask for safetensors.")
    if isinstance(error, ImportError):
        return IsoscopeError(f"{reference.spec} needs a package that is not installed: {first_line(error)}.")
    if "trust_remote_code" in text:
        return brings_code(reference)
    if kind == "SafetensorError":
        return IsoscopeError(f"The weights of {reference.spec} are damaged ({first_line(error)}); copy or download its .safetensors again.")
    what = what or ("cannot be read as a GGUF file" if reference.gguf else "cannot be loaded")
    return IsoscopeError(f"{reference.spec} {what}: {first_line(error)[:LONGEST_REASON]}.")


def whole_number(value: Any, name: str, spec: object, least: int = 1) -> int:
    """A count that a configuration gives; refused where it is none.

    >>> whole_number(3, "num_hidden_layers", "gpt2")
    3
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise IsoscopeError(f"{name} of {spec} must be a whole number of at least {least}; it is {value!r:.60}. Correct its configuration.")
    return value


def first_line(error: BaseException) -> str:
    """The first line of a library's message, or two where the first only introduces the second."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return " ".join(lines[: 2 if lines[0].endswith(":") else 1]).rstrip(".:")


def brings_code(reference: ModelReference) -> IsoscopeError:
    """The error for a checkpoint that needs code of its own."""
    name = reference.name.removeprefix(UNTRAINED)
    return IsoscopeError(f"{reference.spec} brings its own code; read it, and if you trust it say --trust-remote-code {shlex.quote(name)}.")
