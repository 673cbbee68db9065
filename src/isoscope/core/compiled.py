"""Files that numba compiles, where it is installed."""

from __future__ import annotations

import importlib
from functools import lru_cache
from typing import Any


@lru_cache(maxsize=16)
def compiled(name: str) -> Any:
    """The module of this name; None where there is no numba, or no folder in which it may keep what it compiled."""
    try:
        return importlib.import_module(name)
    except (ImportError, RuntimeError):
        return None
