"""Errors and warnings: those of a user, those of a missing package, and bugs of ours in one part of a larger whole."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")

PACKAGES = {
    "torch": ("torch", "models"),
    "transformers": ("transformers", "models"),
    "tokenizers": ("tokenizers", "models"),
    "huggingface_hub": ("huggingface_hub", "models"),
    "soundfile": ("soundfile", "speech"),
    "PIL": ("pillow", "vision"),
    "numba": ("numba", "fast"),
    "gguf": ("gguf", "gguf"),
    "accelerate": ("accelerate", "gguf"),
    "datasets": ("datasets", "datasets"),
    "ray": ("ray", "ray"),
    "altair": ("altair", "report"),
    "vl_convert": ("vl-convert-python", "report"),
    "jinja2": ("jinja2", "report"),
    "markupsafe": ("markupsafe", "report"),
    "sklearn": ("scikit-learn", "repair"),
    "faiss": ("faiss-cpu", "faiss"),
    "tensorboard": ("tensorboard", "tensorboard"),
    "wandb": ("wandb", "wandb"),
    "trackio": ("trackio", "trackio"),
    "mlflow": ("mlflow-skinny", "mlflow"),
}
"""Import name of a package: (name on PyPI, extra of isoscope that installs it)."""


class IsoscopeError(Exception):
    """An error the user can fix. The message states what was expected, what was given and what to do.

    The command line prints the sentence and exits with its code; a traceback is shown only with ISOSCOPE_DEBUG=1.
    """

    code = 2
    """The exit code. It is 1 if all work was done except for a part."""


class IsoscopeWarning(UserWarning):
    """Something that moves a number and that the user should know (zero vectors left out, few documents, …)."""


class MissingExtraError(IsoscopeError, ModuleNotFoundError):
    """A package of an extra is not installed. It is an ImportError too, so that `except ImportError` catches it."""


def nearest(name: str, known: list[str]) -> str:
    """`, did you mean X?` for the nearest known name, or nothing.

    >>> nearest("mean_cosin", ["mean_cosine", "mean_norm"])
    ', did you mean mean_cosine?'
    """
    import difflib  # only needed after an error

    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f", did you mean {close[0]}?" if close else ""


def first_line(error: BaseException) -> str:
    """The first line of an exception's text without its full stop, or the name of its type: a reason to quote in a sentence of ours.

    >>> first_line(ValueError("bad magic.")), first_line(EOFError())
    ('bad magic', 'EOFError')
    """
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")


def describe_error(error: BaseException) -> str:
    """Type and text of an exception, in one line of at most 300 characters.

    >>> describe_error(KeyError("model"))
    "KeyError: 'model'"
    """
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether an exception, or one that caused it, reports that memory ran out.

    >>> is_out_of_memory(MemoryError()), is_out_of_memory(ValueError("out of range"))
    (True, False)
    """
    while error is not None:
        # torch and numpy raise types of their own, and torch on a CPU a RuntimeError that only its text tells apart.
        text = str(error)
        if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
            return True
        if isinstance(error, RuntimeError) and ("can't allocate memory" in text or "not enough memory" in text):
            return True
        error = error.__cause__
    return False


class Failures:
    """The exceptions of parts that failed through a bug of ours, by the name of the part. The other parts are made all the same.

    >>> failures = Failures()
    >>> failures.attempt("the mean", lambda: 1 / 0), failures.describe("the mean"), failures.describe("the sum")
    (None, 'ZeroDivisionError: division by zero', '')
    """

    def __init__(self) -> None:
        self.errors: dict[str, Exception] = {}

    def attempt(self, part: str, act: Callable[[], T]) -> T | None:
        """What `act` returns, or None if it raises. The exception is noted; user errors and a lack of memory are raised at once."""
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

    def describe(self, part: str) -> str:
        """Type and text of the exception of a part; empty if the part did not fail."""
        return describe_error(self.errors[part]) if part in self.errors else ""

    def raise_all(self, whole: str) -> None:
        """Raise all exceptions, if there are any, with every traceback."""
        if self.errors:
            raise ExceptionGroup(f"{len(self.errors)} parts of {whole} failed", list(self.errors.values()))


def missing_extra(error: ModuleNotFoundError, what: str) -> MissingExtraError | None:
    """The error that says what to install for `what`, if the missing module belongs to an extra; None for any other module.

    An installed package that lacks a part is not a missing extra, and neither is a module of isoscope.

    >>> str(missing_extra(ModuleNotFoundError(name="json.tool"), "This"))
    'None'
    """
    top = (error.name or "").partition(".")[0]
    return None if top not in PACKAGES or _is_installed(top) else _missing(top, what)


def import_optional(module: str, what: str) -> Any:
    """Import a module of an extra that only `what` needs."""
    try:
        return importlib.import_module(module)
    except (ImportError, OSError) as error:  # soundfile raises OSError if its C library is missing
        raise _missing(module.partition(".")[0], what) from error


def require_extra(extra: str, what: str) -> None:
    """Refuse `what` before hours of work if a package of the extra that it needs is missing."""
    for module, (_, installed_by) in PACKAGES.items():
        if installed_by == extra and not _is_installed(module):
            raise _missing(module, what)


@contextlib.contextmanager
def missing_extras_as_user_errors(what: str) -> Iterator[None]:
    """Tell the user which extra to install if one of its packages is missing. Every other ImportError passes unchanged."""
    try:
        yield
    except MissingExtraError:
        raise
    except ModuleNotFoundError as error:
        missing = missing_extra(error, what)
        if missing is None:
            raise
        raise missing from error


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:
        return False
    except ValueError:  # the module is imported already and has no spec, as a test double may
        return True


def _missing(module: str, what: str) -> MissingExtraError:
    package, extra = PACKAGES[module]
    return MissingExtraError(f"{what} needs the package {package}: pip install 'isoscope[{extra}]'.", name=module)
