"""The size of things on disk, for people."""

from __future__ import annotations

import shutil
from pathlib import Path

from isoscope.core.errors import IsoscopeError
from isoscope.core.wording import format_bytes


def check_disk(folder: Path, needed: int) -> None:
    """Refuse at once what would not fit, instead of failing hours later."""
    place = folder.resolve()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    if needed > free:
        raise IsoscopeError(
            f"The run will write {format_bytes(needed)} and the disk that holds {folder} has {format_bytes(free)} free; "
            "keep less with --store sums or --store rows, or fewer --layers."
        )
