"""One finished cell: rows and series as Parquet, statistics as safetensors, and a manifest that says it is complete."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from isoscope.core.bounded import parse_json, read_text, regular_size
from isoscope.core.errors import IsoscopeError
from isoscope.core.site import Site
from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, tidy
from isoscope.core.version import __version__
from isoscope.statistics.kept import Statistics, from_state, state_of
from isoscope.store.tensors import Arrays, write_tensors

MANIFEST, ROWS, SERIES, STATISTICS = "manifest.json", "rows.parquet", "series.parquet", "statistics.safetensors"
FORMAT = 1
FIELDS: dict[str, type] = {"key": str, "identity": dict, "columns": dict, "spec": dict, "keep": str, "files": dict}
"""What every manifest holds."""
KEPT = ("rows", "sums", "all")
"""What a cell may have kept, from least to most."""
FILES = (ROWS, SERIES, STATISTICS)
"""What a cell may hold beside its manifest."""
SEAL = '"seal": "'
"""Before the manifest's own hash, which is that of the manifest without it."""
COLUMNS: dict[str, type | tuple[type, ...]] = {
    "model": str,
    "revision": (str, type(None)),
    "step": (int, type(None)),
    "seed": (int, type(None)),
    "modality": (str, type(None)),
    "family": (str, type(None)),
}
"""What a manifest says of the model, and as what."""


def key_of(identity: dict[str, Any]) -> str:
    """The key of a cell: a hash of what determines its statistics, and of nothing else.

    >>> key_of({"a": 1, "b": 2}) == key_of({"b": 2, "a": 1})
    True
    """
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:24]


def manifest_of(identity: dict[str, Any], columns: dict[str, Any], spec: dict[str, Any], keep: str, **more: Any) -> dict[str, Any]:
    """What a cell says of itself: what determined it, what its rows say of the model, what it was measured on, what it kept; and when."""
    made = {"isoscope": __version__, "created": datetime.now(UTC).isoformat(timespec="microseconds")}
    return made | {"identity": identity, "columns": columns, "spec": spec, "keep": keep} | more


def packed(sites: Statistics, *, sample: bool = True) -> Iterator[tuple[str, np.ndarray]]:
    """Statistics as named arrays, those of one site at a time."""
    for site, statistics in sites.items():
        for name, array in state_of(statistics, sample=sample).items():
            yield f"{site.label}/{name}", array


def pack(sites: Statistics, *, sample: bool = True) -> dict[str, np.ndarray]:
    """The same, all at once."""
    return dict(packed(sites, sample=sample))


def unpack(arrays: dict[str, np.ndarray]) -> Statistics:
    """The inverse of `pack`."""
    states: dict[str, dict[str, np.ndarray]] = {}
    for name, array in arrays.items():
        label, _, rest = name.partition("/")
        states.setdefault(label, {})[rest] = array
    found = {site: from_state(site.kind, state) for label, state in states.items() for site in [Site.parse(label)]}
    return dict(sorted(found.items(), key=lambda pair: pair[0].order))


def mistake_in(manifest: dict[str, Any], name: str) -> str:
    """What is wrong with the manifest of a cell in a folder of this name, or nothing; its key names folders that are written to."""
    if absent := [field for field, kind in FIELDS.items() if not isinstance(manifest.get(field), kind)]:
        return f"it lacks {', '.join(absent)}"
    if manifest["key"] != name:
        return f"it is of the cell {manifest['key'][:40]!r}"
    if manifest["keep"] not in KEPT:
        return f"it kept {manifest['keep'][:40]!r}, and not {', '.join(KEPT)}"
    if strange := [file for file in manifest["files"] if file not in FILES]:
        return f"it names the file {strange[0][:40]!r}"
    for column, kind in COLUMNS.items():
        value = manifest["columns"].get(column)
        if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
            return f"its {column} is {value!r:.40}"
        if not isinstance(value, kind) and (column in manifest["columns"] or column == "model"):
            return f"its {column} is {value!r:.40}"
    if not isinstance(manifest.get("tried", []), list):
        return f"what it tried is {manifest['tried']!r:.40}"
    shard = manifest["identity"].get("shard", [0, 1])
    if not (isinstance(shard, list) and len(shard) == 2 and all(type(one) is int for one in shard) and 0 <= shard[0] < shard[1] < 1 << 20):
        return f"its shard is {shard!r:.40}"
    return ""


def sealed(manifest: dict[str, Any]) -> str:
    """A manifest as it is written: its last field is a hash of all the others."""
    fields = {name: value for name, value in manifest.items() if name != "seal"}
    text = json.dumps(fields | {"seal": ""}, indent=1, ensure_ascii=False)
    at = text.rindex(SEAL) + len(SEAL)
    return f"{text[:at]}{hashlib.sha256(text.encode()).hexdigest()}{text[at:]}"


def seal_holds(text: str) -> bool | None:
    """Whether a manifest is as it was written; None where an older isoscope wrote it, which did not say.

    >>> seal_holds(sealed({"n": 12})), seal_holds(sealed({"n": 12}).replace("12", "13")), seal_holds('{"n": 12}')
    (True, False, None)
    """
    at = text.rfind(SEAL) + len(SEAL)
    if at < len(SEAL):
        return None
    said, bare = text[at : at + 64], text[:at] + text[at + 64 :]
    return hashlib.sha256(bare.encode()).hexdigest() == said


@dataclass(frozen=True)
class Cell:
    """A finished cell."""

    folder: Path

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """What determined the cell, what it was measured on, and the hash of each of its files; read once."""
        try:
            regular_size(self.folder / MANIFEST)
            found = parse_json(read_text(self.folder / MANIFEST))
        except (OSError, ValueError) as error:
            raise self.damaged(MANIFEST, getattr(error, "strerror", None) or str(error)) from error
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise IsoscopeError(f"{self.folder} was written in another format; delete that folder and run again.")
        if wrong := mistake_in(found, self.folder.name):
            raise self.damaged(MANIFEST, wrong)
        return found

    def check(self) -> Cell:
        """The cell itself, if each of its files is as long as it was written; else a sentence that says what to delete.

        A cell that is a link, or has one in the place of a file, is refused: what it leads to is not of the run.
        """
        if self.folder.is_symlink():
            raise IsoscopeError(f"{self.folder} is a link, which is not followed; delete it, or put the cell itself there.")
        for name, entry in self.manifest["files"].items():
            try:
                there = regular_size(self.folder / name)
            except OSError as error:
                raise self.damaged(name, error.strerror or str(error)) from error
            written = entry.get("bytes") if isinstance(entry, dict) else None
            if there != written:
                raise self.damaged(name, f"{there} bytes, and {written} were written")
        return self

    def keeps(self, keep: str) -> bool:
        """Whether it kept `rows`, `sums` or `all`, or more."""
        return KEPT.index(self.manifest["keep"]) >= KEPT.index(keep)

    def damaged(self, name: str, reason: str) -> IsoscopeError:
        """What to say of a file that is not as it was written."""
        return IsoscopeError(f"{self.folder / name} is damaged ({reason.rstrip('.')}); delete {self.folder} and run again.")

    def _parquet(self, name: str, columns: dict[str, str]) -> pd.DataFrame:
        return framed([self._arrow(name, columns)], columns)

    def _arrow(self, name: str, columns: dict[str, str]) -> pa.Table:
        """A table as Arrow has it: thousands of them are put together before one frame is made."""
        try:
            with pq.ParquetFile(self.folder / name) as file:
                return file.read(list(columns), use_threads=False).select(list(columns)).cast(_schema(tuple(columns.items())))
        except (OSError, ValueError, KeyError, TypeError, OverflowError, NotImplementedError, MemoryError, pa.ArrowException) as error:
            raise self.damaged(name, (str(error).splitlines() or [type(error).__name__])[0].rpartition(": ")[2]) from error

    def arrow_rows(self) -> pa.Table:
        """The numbers of the cell, before they are a frame."""
        return self._arrow(ROWS, TABLE_COLUMNS)

    def arrow_series(self) -> pa.Table:
        """What is not one number, before it is a frame."""
        return self._arrow(SERIES, SERIES_COLUMNS)

    def rows(self) -> pd.DataFrame:
        """The numbers of the cell."""
        return self._parquet(ROWS, TABLE_COLUMNS)

    def series(self) -> pd.DataFrame:
        """What is not one number."""
        return self._parquet(SERIES, SERIES_COLUMNS)

    @property
    def has_statistics(self) -> bool:
        """Whether the run kept them."""
        return (self.folder / STATISTICS).exists()

    def statistics(self) -> Statistics:
        """The statistics by site."""
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        try:
            return unpack(load_file(self.folder / STATISTICS))
        except (OSError, SafetensorError, KeyError, ValueError, IndexError, TypeError, OverflowError, MemoryError) as error:
            raise self.damaged(STATISTICS, str(error)) from error


@lru_cache
def _schema(columns: tuple[tuple[str, str], ...]) -> pa.Schema:
    kinds = {"string": pa.large_string(), "Int64": pa.int64(), "float64": pa.float64()}
    return pa.schema([(name, kinds[kind]) for name, kind in columns])


def framed(tables: list[pa.Table], columns: dict[str, str]) -> pd.DataFrame:
    """Tables one below the other as one frame with these columns and types."""
    if not tables:
        return tidy([], columns)
    types = {pa.int64(): pd.Int64Dtype(), pa.large_string(): pd.StringDtype()}
    whole = pa.concat_tables(tables).replace_schema_metadata(None)
    found: pd.DataFrame = whole.to_pandas(types_mapper=types.get)
    return found.astype(columns)


def as_arrow(frame: pd.DataFrame, columns: dict[str, str]) -> pa.Table:
    """A frame as a table that goes with those of cells."""
    return pa.Table.from_pandas(frame[list(columns)], preserve_index=False).cast(_schema(tuple(columns.items())))


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
            shutil.copyfile(cell.folder / name, temporary / name)
            if sha256(temporary / name) != entry.get("sha256"):
                raise cell.damaged(name, "its hash is not that of what was written")
        shutil.copyfile(cell.folder / MANIFEST, temporary / MANIFEST)

    return _put(folder, fill, cell.manifest["keep"])


def receive_cell(folder: Path, files: dict[str, np.ndarray]) -> Cell:
    """Write a cell that was made elsewhere, from the bytes of its files; what differs from its manifest is refused."""
    manifest = json.loads(files[MANIFEST].tobytes())
    for name, entry in manifest["files"].items():
        if name not in (ROWS, SERIES, STATISTICS) or name not in files or hashlib.sha256(files[name].data).hexdigest() != entry["sha256"]:
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
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
            progress(len(block))
    return digest.hexdigest()
