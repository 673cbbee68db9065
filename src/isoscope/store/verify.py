"""Whether a run is what was written: every cell against its manifest, and what a process that was killed left behind.

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

from isoscope.core.bounded import open_regular, parse_json, read_text, regular_size
from isoscope.core.parquet import opened
from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS
from isoscope.core.temporary import TEMPORARY, WRITER, writer_has_ended
from isoscope.core.version import __version__
from isoscope.statistics.site_statistics import VERSION
from isoscope.store.abandoned import is_whole_cell
from isoscope.store.manifest import FORMAT, MANIFEST, ROWS, SERIES, STATISTICS, file_name, is_file_of_a_cell, key_of, mistake_in, seal_holds
from isoscope.store.partial import read_cursor
from isoscope.store.states import Outline, mistake_among, mistake_in_site, outline_of
from isoscope.store.tensors import TensorFile
from isoscope.store.writing import sha256

KINDS = {"string": ("string", "large_string"), "Int64": ("int64",), "float64": ("double",)}
"""What Arrow may call the types of the tables' columns."""
BATCH = 4096


@dataclass(frozen=True)
class Fault:
    """One thing that was found: where, of what kind, what it is, and what to do about it."""

    path: str
    kind: str
    """`unfinished`, `manifest`, `format`, `newer`, `older`, `link`, `missing`, `size`, `content`, `extra`, `schema`, `statistics`;
    and of what is not wrong: `leftover`, `partial`, `unsealed`."""
    says: str
    do: str
    wrong: bool = True

    def __str__(self) -> str:
        return f"{self.path}: {self.says}; {self.do}."


def size_of(run: Path) -> int:
    """The bytes that `verify` will read."""
    total = 0
    for path in (path for cell in cells_in(run) for path in _inside(cell)):
        with suppress(OSError):  # it is no regular file, or was deleted meanwhile
            total += regular_size(path)
    return total


def verify(run: Path, progress: Callable[[int], None] = lambda size: None) -> Iterator[Fault]:
    """Everything that is wrong with a run, cell after cell, and then what lies about; `progress` is told of the bytes read."""
    for name in ("cells", "partial"):
        if (run / name).is_symlink():
            yield Fault(str(run / name), "link", "it is a link, which is not followed", "put the folder itself there")
    for cell in cells_in(run):
        yield from _of_cell_at_rest(cell, progress)
    yield from _leftovers(run)


def cells_in(run: Path) -> list[Path]:
    """What lies in the place of cells, and is not hidden."""
    return [path for path in _inside(run / "cells") if not path.name.startswith(".")]


def _inside(folder: Path) -> list[Path]:
    """What lies in a folder; nothing where it is none, is a link or was deleted."""
    try:
        return [] if folder.is_symlink() else sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _of_cell_at_rest(cell: Path, progress: Callable[[int], None]) -> list[Fault]:
    """What is wrong with a cell; what was seen while it was being replaced or deleted does not count, and it is looked at again."""
    while True:
        before = _manifest_looks(cell)
        found = list(_of_cell(cell, progress))
        if not found or _manifest_looks(cell) == before:
            return found
        if not os.path.lexists(cell):
            return []


def _manifest_looks(cell: Path) -> tuple[int, ...] | None:
    try:
        found = os.lstat(cell / MANIFEST)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_ctime_ns


def _of_cell(cell: Path, progress: Callable[[int], None]) -> Iterator[Fault]:
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
    manifest, faults = _manifest(cell, again)
    yield from faults
    if manifest is None:
        return
    good = set[str]()
    at = {name: cell / file_name(manifest, name) for name in manifest["files"]}
    for name, entry in manifest["files"].items():
        found = _of_file(at[name], entry, again, progress)
        if found is None:
            good.add(name)
        else:
            yield found
    for extra in _inside(cell):
        if extra.name != MANIFEST and extra not in at.values():
            yield _extra(extra, manifest)
    for name in (name for name in (ROWS, SERIES) if name not in manifest["files"]):
        yield Fault(str(cell / name), "missing", "the manifest does not name it, and every cell has one", again)
    if (manifest["keep"] != "rows") != (STATISTICS in manifest["files"]):
        yield Fault(str(path), "manifest", f"it kept {manifest['keep']}, which does not go with the files that it names", again)
    for name, columns in ((ROWS, TABLE_COLUMNS), (SERIES, SERIES_COLUMNS)):
        if name in good and (said := _schema(at[name], columns)):
            yield Fault(str(at[name]), "schema", said, again)
    if STATISTICS in good and (said := _statistics(at[STATISTICS])):
        yield Fault(str(at[STATISTICS]), "statistics", said, again)


def _extra(path: Path, manifest: dict[str, Any]) -> Fault:
    """A file in a cell that its manifest does not name: nothing reads it."""
    says = ""
    if is_file_of_a_cell(path.name) and (name := re.search(WRITER, path.name)):
        says = f"it is of the cell before or after it was replaced; {_writer(name)} was replacing it"
    elif path.name in manifest["files"]:
        says = "it is of the cell before it was replaced"
    if says:
        return Fault(str(path), "leftover", says, "delete it once nothing runs", wrong=False)
    return Fault(str(path), "extra", "the manifest does not name it, and it is never read", "delete it")


def _manifest(cell: Path, again: str) -> tuple[dict[str, Any] | None, list[Fault]]:
    """The manifest, if it can be gone by; and what is to be said of it."""
    path = cell / MANIFEST

    def fault(kind: str, says: str, do: str = again, *, wrong: bool = True) -> Fault:
        return Fault(str(path), kind, says, do, wrong)

    try:
        text = read_text(path, follow=False)
        found = parse_json(text)
    except (OSError, ValueError) as error:
        link = isinstance(error, OSError) and path.is_symlink()
        return None, [fault("link" if link else "manifest", f"it cannot be read ({_reason(error)})")]
    if not isinstance(found, dict) or type(found.get("format")) is not int:
        return None, [fault("manifest", "it is no manifest of a cell")]
    if found["format"] > FORMAT and seal_holds(text):
        return None, [fault("newer", f"its format is {found['format']}, and this isoscope reads {FORMAT}", "upgrade isoscope")]
    if found["format"] != FORMAT:
        return None, [fault("format", f"its format is {found['format']}, and this isoscope reads {FORMAT}")]
    if wrong := mistake_in(found, cell.name):
        return None, [fault("manifest", wrong)]
    said = []
    holds = seal_holds(text)
    if holds is False or (holds is None and list(found)[-1] != "files"):
        return None, [fault("manifest", "it is not as it was written: its own hash differs")]
    if key_of(found["identity"]) != cell.name:
        said.append(fault("manifest", "its key is not the hash of what it says was measured"))
    elif holds is None:
        said.append(fault("unsealed", "an older isoscope wrote it without a hash of itself", "nothing need be done", wrong=False))
    version = found["identity"].get("statistics", VERSION)
    if type(version) is int and version > VERSION:
        said.append(fault("newer", f"its statistics are of version {version}, and this isoscope knows {VERSION}", "upgrade isoscope"))
    elif version != VERSION:
        says = f"its statistics are of version {version}, and this isoscope computes version {VERSION}"
        said.append(fault("older", says, again))
    elif _number(found.get("isoscope")) > _number(__version__):
        says = f"isoscope {found['isoscope']} wrote it, and this is {__version__}"
        said.append(fault("newer", says, "nothing need be done, but that version knows more of it", wrong=False))
    return found, said


def _number(version: object) -> tuple[int, ...]:
    """
    >>> _number("0.10.1.dev3") > _number("0.9")
    True
    """
    return tuple(int(part) for part in re.findall(r"\d{1,9}", str(version))[:3])


def _of_file(path: Path, entry: Any, again: str, progress: Callable[[int], None]) -> Fault | None:
    """What is wrong with the bytes of a file."""
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
        found = sha256(path, progress)
    except OSError as error:
        return Fault(str(path), "content", f"it cannot be read ({error.strerror or error})", "look after the disk, then " + again)
    if found != entry.get("sha256"):
        return Fault(str(path), "content", "its bytes are not those that were written: the hash differs", again)
    return None


def _schema(path: Path, columns: dict[str, str]) -> str:
    """What is wrong with a table, a batch of rows at a time."""
    import pyarrow as pa

    try:
        with open_regular(path) as raw, opened(raw) as file:
            schema = file.schema_arrow
            if absent := [name for name in columns if name not in schema.names]:
                return f"it lacks the column {absent[0]}"
            for name, kind in columns.items():
                if (there := str(schema.field(name).type)) not in (*KINDS[kind], "null"):
                    return f"its column {name} holds {there}, and {KINDS[kind][0]} is expected"
            for _ in file.iter_batches(batch_size=BATCH, columns=list(columns)):
                pass
    except (pa.ArrowException, OSError, ValueError) as error:
        return f"it cannot be read ({_reason(error)})"
    return ""


def _statistics(path: Path) -> str:
    """What is wrong with statistics, one site at a time."""
    outlines: dict[str, Outline] = {}
    try:
        with open_regular(path) as raw:
            file = TensorFile(raw)
            names: dict[str, list[str]] = {}
            for name in file.names:
                names.setdefault(name.partition("/")[0], []).append(name)
            for site, own in names.items():
                state = {name.partition("/")[2]: file.read(name) for name in own}
                if wrong := mistake_in_site(site, state):
                    return f"what it holds of {site!r:.80} is not what a site keeps ({wrong})"
                outlines[site] = outline_of(state)
    except (OSError, ValueError, OverflowError, MemoryError) as error:  # NumPy has limits of its own for a shape
        return f"it cannot be read ({_reason(error)})"
    return mistake_among(outlines)


def _leftovers(run: Path) -> Iterator[Fault]:
    """What lies about next to the cells: none of it is ever read as a result."""
    for path in [*sorted(run.iterdir()), *_inside(run / "cells"), *_inside(run / "partial")]:
        if name := TEMPORARY.fullmatch(path.name):
            yield _left_by_a_writer(path, name)
        elif path.parent.name == "partial" and path.suffix == ".safetensors":
            yield from _partial(run, path)


def _left_by_a_writer(path: Path, name: re.Match[str]) -> Fault:
    """What a process was writing or deleting: no advice may cost the only copy of a cell."""
    says = f"{_writer(name)} was writing it"
    if not os.path.lexists(path.with_name(name["name"])) and is_whole_cell(path, name["name"]):
        return Fault(str(path), "leftover", f"{says}, and it is whole", f"rename it to {name['name']} once nothing runs", wrong=False)
    return Fault(str(path), "leftover", says, "delete it once nothing runs", wrong=False)


def _partial(run: Path, path: Path) -> Iterator[Fault]:
    """The state of a cell that was under way."""
    if os.path.lexists(run / "cells" / path.stem / MANIFEST):
        yield Fault(str(path), "leftover", "its cell is finished", "delete it", wrong=False)
    elif (cursor := read_cursor(path)) is None:
        yield Fault(str(path), "leftover", "it is a state that cannot be read and will not be used", "delete it", wrong=False)
    else:
        yield Fault(
            str(path), "partial", f"a cell got as far as {cursor['items']} items", "the same command resumes from there", wrong=False
        )


def _writer(name: re.Match[str]) -> str:
    """The process in a name, and whether it still runs."""
    ended = writer_has_ended(name)
    if ended is None:
        return f"process {name['process']} of another machine or container, or from before a restart,"
    return f"process {name['process']}, which {'has ended' if ended else 'may still run'},"


def _reason(error: BaseException) -> str:
    """The first line of what a library said, short enough for a sentence."""
    said = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return str(said).splitlines()[0].rpartition(": ")[2].rstrip(".")[:120]


def is_run(path: Path) -> bool:
    """Whether a folder has the form of a run."""
    with suppress(OSError):
        return stat.S_ISDIR((path / "cells").stat().st_mode)
    return False
