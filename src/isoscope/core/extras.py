"""Optional packages, and the extra that installs each."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
from collections.abc import Iterator
from typing import Any

from isoscope.core.errors import IsoscopeError

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
}
"""Import name of a package: (name on PyPI, extra of isoscope that installs it)."""


class MissingExtraError(IsoscopeError, ModuleNotFoundError):
    """A package of an extra is not installed. It is an ImportError too, so that `except ImportError` catches it."""


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
