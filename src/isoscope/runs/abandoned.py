"""Leftovers of processes that were killed while they wrote: a whole cell is adopted, everything else is deleted."""

from __future__ import annotations

import os
from pathlib import Path

from isoscope.core.temporary import delete_path, find_abandoned
from isoscope.runs.manifest import MANIFEST, mistake_in, seal_holds
from isoscope.runs.writing import flush, sha256
from isoscope.trust.safe_io import parse_json, read_text


def clear_abandoned(folder: Path) -> None:
    """Adopt or delete what processes were writing into this folder when they were killed."""
    if folder.is_dir():
        for path, name in find_abandoned(folder):
            if not _adopt_cell(path, path.with_name(name["name"])):
                delete_path(path)


def _adopt_cell(path: Path, cell: Path) -> bool:
    """Rename a whole cell to its own name, unless there is one of that name; return whether that was done."""
    # The process was killed just before its last rename. Its cell took minutes or hours, and is as good as any.
    if os.path.lexists(cell) or not is_whole_cell(path, cell.name):
        return False
    for file in (*path.iterdir(), path):
        flush(file)
    path.rename(cell)
    flush(cell.parent)
    return True


def is_whole_cell(folder: Path, key: str) -> bool:
    """Whether a folder holds a complete cell of this key: the seal of its manifest holds, and so does the hash of each file."""
    try:
        text = read_text(folder / MANIFEST, follow=False)
        manifest = parse_json(text)
        if not (seal_holds(text) and isinstance(manifest, dict)) or mistake_in(manifest, key):
            return False
        return all(sha256(folder / file) == entry["sha256"] for file, entry in manifest["files"].items())
    except (OSError, ValueError):
        return False
