"""The folder in which isoscope keeps what can be made or fetched again."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """ISOSCOPE_CACHE, or `isoscope` in XDG_CACHE_HOME, or `~/.cache/isoscope`. It need not exist."""
    if own := os.environ.get("ISOSCOPE_CACHE"):
        return Path(own).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "isoscope"
