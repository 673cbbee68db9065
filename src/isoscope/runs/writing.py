"""Write cells so that each is there whole or not at all: under another name first, flushed to the disk, then shown by one rename.

A process may be killed, or a machine lose power, between any two lines of this module. At each of them a reader must find the old cell,
the new cell or none; never a part of one.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from isoscope.core.errors import IsoscopeError
from isoscope.core.temporary import WRITER, delete_path, find_abandoned, is_abandoned, new_writer_name, temporary_path
from isoscope.runs.stored_cell import (
    AT,
    FILES,
    FORMAT,
    MANIFEST,
    ROWS,
    SERIES,
    STATISTICS,
    Cell,
    RemovedError,
    file_name,
    is_file_of_a_cell,
    mistake_in_manifest,
    seal_holds,
    seal_manifest,
)
from isoscope.runs.tensors import Arrays, write_tensors
from isoscope.trust.safe_io import open_regular, parse_json, read_text


class FullDiskError(IsoscopeError):
    """The disk is full, so that no other cell can be written either."""

    def __init__(self, folder: Path) -> None:
        super().__init__(
            f"The disk that holds {folder} is full; finished cells are kept: "
            "free some space (or keep less with --store rows) and run the same command again."
        )


@contextlib.contextmanager
def disk_errors_as_user_errors(folder: Path) -> Iterator[None]:
    """Turn errors of the system into one sentence about this folder."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise FullDiskError(folder) from error
        raise IsoscopeError(f"Cannot write to {folder}: {error.strerror or error}.") from error
    except Exception as error:  # pyarrow and safetensors report a full disk as errors of their own
        if "No space left" in str(error) or "os error 28" in str(error):
            raise FullDiskError(folder) from error
        raise


def write_cell(
    folder: Path,
    manifest: dict[str, Any],
    rows: pd.DataFrame,
    series: pd.DataFrame,
    arrays: Arrays | None,
    *,
    replace: bool = False,
) -> Cell:
    """Write a cell. A cell that is there already stays, unless it kept less or is to be replaced."""

    def fill(temporary: Path) -> dict[str, Any]:
        rows.to_parquet(temporary / ROWS, index=False)
        series.to_parquet(temporary / SERIES, index=False)
        if arrays is not None:
            write_tensors(arrays, temporary / STATISTICS)
        files = {path.name: {"bytes": path.stat().st_size, "sha256": sha256(path)} for path in sorted(temporary.iterdir())}
        return {"format": FORMAT, **manifest, "files": files}

    return _publish(folder, fill, manifest["keep"], replace=replace)


def copy_cell(folder: Path, cell: Cell) -> Cell:
    """Copy a cell into another run. A file whose hash differs from the manifest is refused."""

    def copy_files(temporary: Path) -> dict[str, Any]:
        for name, entry in cell.manifest["files"].items():
            with open_regular(cell.path_of(name)) as source, (temporary / name).open("wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
            if sha256(temporary / name) != entry.get("sha256"):
                raise cell.damage_error(name, "its hash is not that of what was written")
        return cell.manifest

    return _publish(folder, lambda temporary: cell.read_consistently(lambda: copy_files(temporary)), cell.manifest["keep"])


def receive_cell(folder: Path, files: dict[str, np.ndarray]) -> Cell:
    """Write a cell that another machine made, from the bytes of its files. A file whose hash differs from the manifest is refused."""
    manifest = json.loads(files[MANIFEST].tobytes())
    for name, entry in manifest["files"].items():
        if name not in FILES or name not in files or hashlib.sha256(files[name].data).hexdigest() != entry["sha256"]:
            raise IsoscopeError(f"{name} of {folder.name} was damaged on its way; run the same command again.")

    def fill(temporary: Path) -> dict[str, Any]:
        for name in manifest["files"]:
            (temporary / name).write_bytes(files[name].data)
        return dict(manifest)

    return _publish(folder, fill, manifest["keep"])


def delete_cell(folder: Path) -> None:
    """Delete a cell; it is renamed first, so that nobody reads one that is half deleted."""
    hidden = temporary_path(folder)
    with disk_errors_as_user_errors(folder.parent), contextlib.suppress(FileNotFoundError):  # another process was faster
        folder.rename(hidden)
        # The manifest goes first. If this process is killed now, the next command must not adopt the rest as a whole cell.
        (hidden / MANIFEST).unlink(missing_ok=True)
        shutil.rmtree(hidden, ignore_errors=True)


def _publish(folder: Path, fill: Callable[[Path], dict[str, Any]], keep: str, *, replace: bool = False) -> Cell:
    """Write a cell's files into a hidden folder, then show them with one rename.

    `fill` writes the files into a folder and returns the manifest.
    """
    if not replace and _holds_cell(folder, keep):
        return Cell(folder)
    temporary = temporary_path(folder)
    try:
        with disk_errors_as_user_errors(folder.parent):
            temporary.mkdir(parents=True)
            manifest = fill(temporary)
            # A rename may reach the disk before the bytes of the files do, so the bytes are flushed first.
            for path in temporary.iterdir():
                flush(path)
            shown = _show_new_cell(temporary, folder, manifest)
            if not shown and (replace or not _holds_cell(folder, keep)):
                _replace_cell(temporary, folder, manifest)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return Cell(folder)


def _holds_cell(folder: Path, keep: str) -> bool:
    """Whether a folder holds a finished cell that kept as much."""
    return os.path.lexists(folder / MANIFEST) and Cell(folder).keeps(keep)


def _show_new_cell(temporary: Path, folder: Path, manifest: dict[str, Any]) -> bool:
    """Rename the hidden folder to that of the cell; return False if the cell has a folder already."""
    _write_manifest(temporary, manifest, {})
    try:
        temporary.rename(folder)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            return False
        raise
    flush(folder.parent)
    return True


def _replace_cell(temporary: Path, folder: Path, manifest: dict[str, Any]) -> None:
    """Put new files next to the old ones, under names that nobody else uses, and then show them all by renaming the manifest."""
    # A folder that is not empty cannot be replaced by one rename, but a file can. So the manifest is what is renamed: at every instant
    # it names files that are there and whole, first those of the old cell, then those of the new one. The old files are deleted only
    # when the new manifest is on the disk.
    writer = new_writer_name()
    names = {file: "{0}.{2}.{1}".format(*file.split(".", 1), writer) for file in manifest["files"]}
    _write_manifest(temporary, manifest, names)
    try:
        for file, name in names.items():
            (temporary / file).rename(folder / name)
        flush(folder)
        before = set[str]()
        with contextlib.suppress(IsoscopeError):  # a damaged manifest is replaced like any other
            before = _files_named_in(folder)
        (temporary / MANIFEST).rename(folder / MANIFEST)
        flush(folder)
    except BaseException:
        # An interrupt may fall just after the rename, and then the new files are the cell. Better a file too many than a cell lost.
        with contextlib.suppress(OSError, IsoscopeError):
            for name in set(names.values()) - _files_named_in(folder):
                (folder / name).unlink(missing_ok=True)
        raise
    _delete_leftovers(folder, before)


def _files_named_in(folder: Path) -> set[str]:
    """The files that the manifest of a cell names; none if there is no manifest. An error if it cannot be read."""
    try:
        manifest = Cell(folder).manifest
    except RemovedError:
        return set()
    return {file_name(manifest, file) for file in manifest["files"]}


def _delete_leftovers(folder: Path, before: set[str]) -> None:
    """Delete the files of the cell that was replaced, and of replacements whose process was killed."""
    # The files of another process that is replacing the cell at this moment must stay: its manifest is about to name them. Files under
    # their plain names (`rows.parquet`) arrive with a whole folder only, so no manifest is about to name those.
    named, now = _files_named_in(folder), (folder / MANIFEST).lstat().st_mtime
    for path in folder.iterdir():
        if is_file_of_a_cell(path.name) and path.name not in named:
            writer = re.search(WRITER, path.name)
            if path.name in before or writer is None or is_abandoned(path, writer, now):
                path.unlink(missing_ok=True)


def _write_manifest(temporary: Path, manifest: dict[str, Any], names: dict[str, str]) -> None:
    """Write the manifest of a cell whose files have these names, or their plain ones."""
    files = {
        file: {key: entry[key] for key in ("bytes", "sha256")} | ({AT: names[file]} if file in names else {})
        for file, entry in manifest["files"].items()
    }
    (temporary / MANIFEST).write_text(seal_manifest({**manifest, "files": files}), "utf-8")
    flush(temporary / MANIFEST)
    flush(temporary)


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file under another name and rename it, so that it is there whole or not at all."""
    temporary = temporary_path(path)
    try:
        with disk_errors_as_user_errors(path.parent):
            write(temporary)
            flush(temporary)
            temporary.replace(path)
            flush(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def make_folders(folder: Path) -> None:
    """Make a folder and those above it, and flush each of their names to the disk."""
    new = [path for path in (folder, *folder.absolute().parents) if not path.is_dir()]
    folder.mkdir(parents=True, exist_ok=True)
    for path in new:
        flush(path.parent)


def flush(path: Path) -> None:
    """Have the system write a file, or the names in a folder, to the disk."""
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
        if not (seal_holds(text) and isinstance(manifest, dict)) or mistake_in_manifest(manifest, key):
            return False
        return all(sha256(folder / file) == entry["sha256"] for file, entry in manifest["files"].items())
    except (OSError, ValueError):
        return False
