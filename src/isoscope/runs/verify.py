"""Check that a run is as it was written: every cell against its manifest; list what killed processes left behind.

Files are hashed and tables decoded in blocks, statistics one site at a time, so that a run of any size is checked in little memory.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isoscope import __version__
from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS
from isoscope.core.temporary import TEMPORARY, WRITER, writer_has_ended
from isoscope.runs.states import Outline, mistake_among, mistake_in_site, outline_of
from isoscope.runs.stored_cell import (
    FORMAT,
    MANIFEST,
    ROWS,
    SERIES,
    STATISTICS,
    file_name,
    is_file_of_a_cell,
    key_of,
    mistake_in_manifest,
    seal_holds,
)
from isoscope.runs.tensors import TensorFile, read_cursor
from isoscope.runs.writing import is_whole_cell, sha256
from isoscope.statistics.site_statistics import VERSION
from isoscope.trust.parquet_layout import open_checked_parquet
from isoscope.trust.safe_io import open_regular, parse_json, read_text, regular_size

ARROW_TYPES = {"string": ("string", "large_string"), "Int64": ("int64",), "float64": ("double",)}
"""The names in Arrow of the types of columns."""
ROWS_PER_BATCH = 4096


@dataclass(frozen=True)
class Fault:
    """One finding: where it is, its kind, what it is, and what to do about it."""

    path: str
    kind: str
    """`unfinished`, `manifest`, `format`, `newer`, `older`, `link`, `missing`, `size`, `content`, `extra`, `schema`, `statistics`;
    and, for what is not wrong, `leftover`, `partial`, `unsealed`."""
    says: str
    do: str
    wrong: bool = True

    def __str__(self) -> str:
        return f"{self.path}: {self.says}; {self.do}."


def size_of(run: Path) -> int:
    """The bytes that `verify` will read."""
    total = 0
    for path in (path for cell in cells_in(run) for path in _list_folder(cell)):
        with suppress(OSError):  # no regular file, or deleted meanwhile
            total += regular_size(path)
    return total


def verify(run: Path, progress: Callable[[int], None] = lambda size: None) -> Iterator[Fault]:
    """Everything that is wrong with a run, cell after cell, then leftovers; `progress` is called with the number of bytes read."""
    for name in ("cells", "partial"):
        if (run / name).is_symlink():
            yield Fault(str(run / name), "link", "it is a link, which is not followed", "put the folder itself there")
    for cell in cells_in(run):
        yield from _check_settled_cell(cell, progress)
    yield from _find_leftovers(run)


def cells_in(run: Path) -> list[Path]:
    """The paths in the folder of cells that are not hidden."""
    return [path for path in _list_folder(run / "cells") if not path.name.startswith(".")]


def _list_folder(folder: Path) -> list[Path]:
    """The paths in a folder; none if it is no folder, is a link or was deleted."""
    try:
        return [] if folder.is_symlink() else sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _check_settled_cell(cell: Path, progress: Callable[[int], None]) -> list[Fault]:
    """What is wrong with a cell."""
    # Faults that were seen while another process replaced or deleted the cell do not count: it is checked again until it stays the same.
    while True:
        before = _manifest_stamp(cell)
        faults = list(_check_cell(cell, progress))
        if not faults or _manifest_stamp(cell) == before:
            return faults
        if not os.path.lexists(cell):
            return []


def _manifest_stamp(cell: Path) -> tuple[int, ...] | None:
    try:
        status = os.lstat(cell / MANIFEST)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_ctime_ns


def _check_cell(cell: Path, progress: Callable[[int], None]) -> Iterator[Fault]:
    again = f"delete {cell} and run the same command again"
    if cell.is_symlink():
        yield Fault(str(cell), "link", "it is a link, which is not followed", "delete it, or put the cell itself there")
        return
    if not cell.is_dir():
        yield Fault(str(cell), "extra", "it is no folder, and nothing here wrote it", "delete it")
        return
    path = cell / MANIFEST
    if not os.path.lexists(path):
        yield Fault(str(cell), "unfinished", f"it has no {MANIFEST}, so it is no finished cell and nothing of it is read", again)
        return
    manifest, faults = _read_manifest(cell, again)
    yield from faults
    if manifest is None:
        return
    intact = set[str]()
    paths = {name: cell / file_name(manifest, name) for name in manifest["files"]}
    for name, entry in manifest["files"].items():
        fault = _check_file(paths[name], entry, again, progress)
        if fault is None:
            intact.add(name)
        else:
            yield fault
    for extra in _list_folder(cell):
        if extra.name != MANIFEST and extra not in paths.values():
            yield _fault_of_unnamed_file(extra, manifest)
    for name in (name for name in (ROWS, SERIES) if name not in manifest["files"]):
        yield Fault(str(cell / name), "missing", "the manifest does not name it, and every cell has one", again)
    if (manifest["keep"] != "rows") != (STATISTICS in manifest["files"]):
        yield Fault(str(path), "manifest", f"it kept {manifest['keep']}, which does not go with the files that it names", again)
    # Only files whose bytes are those that were written are decoded: a wrong hash is the fault, and decoding would report its consequences.
    for name, columns in ((ROWS, TABLE_COLUMNS), (SERIES, SERIES_COLUMNS)):
        if name in intact and (mistake := _mistake_in_table_file(paths[name], columns)):
            yield Fault(str(paths[name]), "schema", mistake, again)
    if STATISTICS in intact and (mistake := _mistake_in_statistics_file(paths[STATISTICS])):
        yield Fault(str(paths[STATISTICS]), "statistics", mistake, again)


def _fault_of_unnamed_file(path: Path, manifest: dict[str, Any]) -> Fault:
    """The fault of a file in a cell that the manifest does not name, so that nothing reads it."""
    says = ""
    if is_file_of_a_cell(path.name) and (name := re.search(WRITER, path.name)):
        says = f"it is of the cell before or after it was replaced; {_describe_writer(name)} was replacing it"
    elif path.name in manifest["files"]:
        says = "it is of the cell before it was replaced"
    if says:
        return Fault(str(path), "leftover", says, "delete it once nothing runs", wrong=False)
    return Fault(str(path), "extra", "the manifest does not name it, and it is never read", "delete it")


def _read_manifest(cell: Path, again: str) -> tuple[dict[str, Any] | None, list[Fault]]:
    """The manifest, or None if it cannot be trusted; and its faults."""
    path = cell / MANIFEST

    def fault(kind: str, says: str, do: str = again, *, wrong: bool = True) -> Fault:
        return Fault(str(path), kind, says, do, wrong)

    try:
        text = read_text(path, follow=False)
        manifest = parse_json(text)
    except (OSError, ValueError) as error:
        link = isinstance(error, OSError) and path.is_symlink()
        return None, [fault("link" if link else "manifest", f"it cannot be read ({_reason(error)})")]
    if not isinstance(manifest, dict) or type(manifest.get("format")) is not int:
        return None, [fault("manifest", "it is no manifest of a cell")]
    if manifest["format"] > FORMAT and seal_holds(text):
        return None, [fault("newer", f"its format is {manifest['format']}, and this isoscope reads {FORMAT}", "upgrade isoscope")]
    if manifest["format"] != FORMAT:
        return None, [fault("format", f"its format is {manifest['format']}, and this isoscope reads {FORMAT}")]
    if mistake := mistake_in_manifest(manifest, cell.name):
        return None, [fault("manifest", mistake)]
    faults = []
    holds = seal_holds(text)
    if holds is False or (holds is None and list(manifest)[-1] != "files"):
        return None, [fault("manifest", "it is not as it was written: its own hash differs")]
    if key_of(manifest["identity"]) != cell.name:
        faults.append(fault("manifest", "its key is not the hash of what it says was measured"))
    elif holds is None:
        faults.append(fault("unsealed", "an older isoscope wrote it without a hash of itself", "nothing need be done", wrong=False))
    version = manifest["identity"].get("statistics", VERSION)
    if type(version) is int and version > VERSION:
        faults.append(fault("newer", f"its statistics are of version {version}, and this isoscope knows {VERSION}", "upgrade isoscope"))
    elif version != VERSION:
        says = f"its statistics are of version {version}, and this isoscope computes version {VERSION}"
        faults.append(fault("older", says, again))
    elif _version_numbers(manifest.get("isoscope")) > _version_numbers(__version__):
        says = f"isoscope {manifest['isoscope']} wrote it, and this is {__version__}"
        faults.append(fault("newer", says, "nothing need be done, but that version knows more of it", wrong=False))
    return manifest, faults


def _version_numbers(version: object) -> tuple[int, ...]:
    """
    >>> _version_numbers("0.10.1.dev3") > _version_numbers("0.9")
    True
    """
    return tuple(int(part) for part in re.findall(r"\d{1,9}", str(version))[:3])


def _check_file(path: Path, entry: Any, again: str, progress: Callable[[int], None]) -> Fault | None:
    """The fault of a file whose bytes are not those that were written."""
    try:
        size = regular_size(path)
    except FileNotFoundError:
        return Fault(str(path), "missing", "the manifest names it, and it is not there", again)
    except OSError as error:
        return Fault(str(path), "link", error.strerror or str(error), again)
    written = entry.get("bytes") if isinstance(entry, dict) else None
    if size != written:
        return Fault(str(path), "size", f"it has {size} bytes, and {written} were written", again)
    try:
        digest = sha256(path, progress)
    except OSError as error:
        return Fault(str(path), "content", f"it cannot be read ({error.strerror or error})", "look after the disk, then " + again)
    if digest != entry.get("sha256"):
        return Fault(str(path), "content", "its bytes are not those that were written: the hash differs", again)
    return None


def _mistake_in_table_file(path: Path, columns: dict[str, str]) -> str:
    """What is wrong with a table, which is read a batch of rows at a time."""
    import pyarrow as pa

    try:
        with open_regular(path) as raw, open_checked_parquet(raw) as file:
            schema = file.schema_arrow
            if absent := [name for name in columns if name not in schema.names]:
                return f"it lacks the column {absent[0]}"
            for name, kind in columns.items():
                if (type_name := str(schema.field(name).type)) not in (*ARROW_TYPES[kind], "null"):
                    return f"its column {name} holds {type_name}, and {ARROW_TYPES[kind][0]} is expected"
            for _ in file.iter_batches(batch_size=ROWS_PER_BATCH, columns=list(columns)):
                pass
    except (pa.ArrowException, OSError, ValueError) as error:
        return f"it cannot be read ({_reason(error)})"
    return ""


def _mistake_in_statistics_file(path: Path) -> str:
    """What is wrong with statistics, which are read one site at a time."""
    outlines: dict[str, Outline] = {}
    try:
        with open_regular(path) as raw:
            file = TensorFile(raw)
            names: dict[str, list[str]] = {}
            for name in file.names:
                names.setdefault(name.partition("/")[0], []).append(name)
            for site, arrays in names.items():
                state = {name.partition("/")[2]: file.read(name) for name in arrays}
                if mistake := mistake_in_site(site, state):
                    return f"what it holds of {site!r:.80} is not what a site keeps ({mistake})"
                outlines[site] = outline_of(state)
    except (OSError, ValueError, OverflowError, MemoryError) as error:  # NumPy limits shapes too
        return f"it cannot be read ({_reason(error)})"
    return mistake_among(outlines)


def _find_leftovers(run: Path) -> Iterator[Fault]:
    """Leftovers next to the cells: none of them is ever read as a result."""
    for path in [*sorted(run.iterdir()), *_list_folder(run / "cells"), *_list_folder(run / "partial")]:
        if name := TEMPORARY.fullmatch(path.name):
            yield _fault_of_temporary(path, name)
        elif path.parent.name == "partial" and path.suffix == ".safetensors":
            yield from _fault_of_partial(run, path)


def _fault_of_temporary(path: Path, name: re.Match[str]) -> Fault:
    """The fault of a file or folder that a process was writing or deleting."""
    # If it is whole and the cell is not there, it is the only copy: the advice must not be to delete it.
    says = f"{_describe_writer(name)} was writing it"
    if not os.path.lexists(path.with_name(name["name"])) and is_whole_cell(path, name["name"]):
        return Fault(str(path), "leftover", f"{says}, and it is whole", f"rename it to {name['name']} once nothing runs", wrong=False)
    return Fault(str(path), "leftover", says, "delete it once nothing runs", wrong=False)


def _fault_of_partial(run: Path, path: Path) -> Iterator[Fault]:
    """The finding for the state of an unfinished cell."""
    if os.path.lexists(run / "cells" / path.stem / MANIFEST):
        yield Fault(str(path), "leftover", "its cell is finished", "delete it", wrong=False)
    elif (cursor := read_cursor(path)) is None:
        yield Fault(str(path), "leftover", "it is a state that cannot be read and will not be used", "delete it", wrong=False)
    else:
        yield Fault(
            str(path), "partial", f"a cell got as far as {cursor['items']} items", "the same command resumes from there", wrong=False
        )


def _describe_writer(name: re.Match[str]) -> str:
    """The process that a name mentions, and whether it still runs."""
    ended = writer_has_ended(name)
    if ended is None:
        return f"process {name['process']} of another machine or container, or from before a restart,"
    return f"process {name['process']}, which {'has ended' if ended else 'may still run'},"


def _reason(error: BaseException) -> str:
    """The first line of a library's error, short enough for a sentence."""
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return str(text).splitlines()[0].rpartition(": ")[2].rstrip(".")[:120]


def is_run(path: Path) -> bool:
    """Whether a folder has the form of a run."""
    with suppress(OSError):
        return stat.S_ISDIR((path / "cells").stat().st_mode)
    return False
