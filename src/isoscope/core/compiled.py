"""Files that numba compiles, where it is installed."""

from __future__ import annotations

import importlib
import warnings
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

from isoscope.core.errors import IsoscopeWarning

NO_CACHE = "cannot cache function"
"""What numba says where there is no folder in which it may keep what it compiled."""


@lru_cache(maxsize=16)
def compiled(name: str) -> Any:
    """The module of this name; None where numba is not installed, and with a warning where it cannot be used here."""
    if find_spec("numba") is None:
        return None
    try:
        importlib.import_module("numba")
    except (ImportError, OSError) as error:  # a numpy that is too new for it, or a library that is missing
        _warn(error)
        return None
    try:
        return importlib.import_module(name)
    except RuntimeError as error:
        if NO_CACHE not in str(error):
            raise
        _warn(error)
        return None


@lru_cache(maxsize=1)
def _warn_once(said: str) -> None:
    warnings.warn(f"numba cannot be used here ({said}); numbers are the same and come more slowly.", IsoscopeWarning, stacklevel=4)


def _warn(error: Exception) -> None:
    _warn_once((str(error) or type(error).__name__).splitlines()[0].rstrip("."))
