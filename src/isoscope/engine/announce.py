"""The size of things on disk, for people."""

from __future__ import annotations

import shutil
from pathlib import Path

from isoscope.core.errors import IsoscopeError


def human(size: float) -> str:
    """A size as people say it.

    >>> human(1_530_000_000)
    '1.5 GB'
    """
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit != "GB" else f"{size:.1f} GB"
        size /= 1000
        if unit == "MB" and size < 1000:
            return f"{size:.1f} GB"
    return f"{size:.1f} TB"


def check_disk(folder: Path, needed: int) -> None:
    """Refuse at once what would not fit, instead of failing hours later."""
    place = folder.resolve()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    if needed > free:
        raise IsoscopeError(
            f"The run will write {human(needed)} and the disk that holds {folder} has {human(free)} free; keep less with --keep sums or "
            "--keep rows, or fewer --layers."
        )
