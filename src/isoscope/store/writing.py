"""A cell is put in place whole or not at all: filled under another name, flushed, and renamed."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from isoscope.core.bounded import open_regular
from isoscope.core.errors import IsoscopeError
from isoscope.store.cell import Cell
from isoscope.store.manifest import FILES, FORMAT, MANIFEST, ROWS, SERIES, STATISTICS, sealed
from isoscope.store.tensors import Arrays, write_tensors


def writing(act: Callable[[], None], where: Path) -> None:
    """Do `act`; a full disk becomes one sentence."""
    try:
        act()
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _full(where) from error
        raise IsoscopeError(f"Cannot write to {where}: {error.strerror or error}.") from error
    except Exception as error:  # safetensors reports a full disk as an error of its own
        if "No space left" in str(error) or "os error 28" in str(error):
            raise _full(where) from error
        raise


class FullDiskError(IsoscopeError):
    """No cell can be written any more, whichever it is."""


def _full(where: Path) -> FullDiskError:
    return FullDiskError(
        f"The disk that holds {where} is full; finished cells are kept: "
        "free some space (or keep less with --keep rows) and run the same command again."
    )


def write_cell(
    folder: Path,
    manifest: dict[str, Any],
    rows: pd.DataFrame,
    series: pd.DataFrame,
    arrays: Arrays | None,
    *,
    replace: bool = False,
) -> Cell:
    """Write a cell under another name, its manifest last, and rename it: it is there whole or not at all.

    A cell that is there already stays, unless it kept less or is to be replaced; then it stays until the new one is on the disk.
    """

    def fill(temporary: Path) -> None:
        rows.to_parquet(temporary / ROWS, index=False)
        series.to_parquet(temporary / SERIES, index=False)
        if arrays is not None:
            write_tensors(arrays, temporary / STATISTICS)
        files = {path.name: {"bytes": path.stat().st_size, "sha256": sha256(path)} for path in sorted(temporary.iterdir())}
        (temporary / MANIFEST).write_text(sealed({"format": FORMAT, **manifest, "files": files}), "utf-8")

    return _put(folder, fill, manifest["keep"], replace=replace)


def copy_cell(folder: Path, cell: Cell) -> Cell:
    """The same cell in another run; what is not as it was written is not copied."""

    def fill(temporary: Path) -> None:
        for name, entry in cell.manifest["files"].items():
            with open_regular(cell.path_of(name)) as source, (temporary / name).open("xb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
            if sha256(temporary / name) != entry.get("sha256"):
                raise cell.damaged(name, "its hash is not that of what was written")
        shutil.copyfile(cell.folder / MANIFEST, temporary / MANIFEST)

    return _put(folder, fill, cell.manifest["keep"])


def receive_cell(folder: Path, files: dict[str, np.ndarray]) -> Cell:
    """Write a cell that was made elsewhere, from the bytes of its files; what differs from its manifest is refused."""
    manifest = json.loads(files[MANIFEST].tobytes())
    for name, entry in manifest["files"].items():
        if name not in FILES or name not in files or hashlib.sha256(files[name].data).hexdigest() != entry["sha256"]:
            raise IsoscopeError(f"{name} of {folder.name} was damaged on its way; run the same command again.")

    def fill(temporary: Path) -> None:
        for name in (*manifest["files"], MANIFEST):
            (temporary / name).write_bytes(files[name].data)

    return _put(folder, fill, manifest["keep"])


def _put(folder: Path, fill: Callable[[Path], None], keep: str, *, replace: bool = False) -> Cell:
    """Have a folder filled under another name and rename it."""
    temporary, aside = (folder.with_name(f".{folder.name}.{os.getpid()}{end}") for end in ("", ".old"))

    def act() -> None:
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        fill(temporary)
        for path in temporary.iterdir():
            flush(path)
        if folder.exists() and (replace or not ((folder / MANIFEST).exists() and Cell(folder).keeps(keep))):
            with contextlib.suppress(FileNotFoundError):  # another process may be replacing it too
                folder.rename(aside)
        try:
            temporary.rename(folder)
        except OSError:
            if not (folder / MANIFEST).exists():  # another process may have finished the same cell first
                raise
        flush(folder.parent)

    try:
        writing(act, folder.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        shutil.rmtree(aside, ignore_errors=True)
    return Cell(folder)


def flush(path: Path) -> None:
    """Have the system put a file or folder on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sha256(path: Path, progress: Callable[[int], None] = lambda size: None) -> str:
    """The hash of a file, read in blocks."""
    digest = hashlib.sha256()
    with open_regular(path) as file:
        while block := file.read(1 << 20):
            digest.update(block)
            progress(len(block))
    return digest.hexdigest()
