"""A finished cell on disk: its manifest, and its rows, series and statistics.

The manifest holds the identity, what was measured, the hash of each file, and a hash of itself, the seal. It is written last.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa

from isoscope import __version__
from isoscope.core.errors import IsoscopeError
from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS
from isoscope.core.temporary import WRITER
from isoscope.runs.states import mistake_in_statistics
from isoscope.runs.tables import join_frames, mistake_in_table, read_arrow_table
from isoscope.runs.tensors import TensorFile, group_by_site, unpack_statistics
from isoscope.statistics.any_statistics import Statistics
from isoscope.statistics.site_statistics import VERSION
from isoscope.trust.safe_io import open_regular, read_json, regular_size

T = TypeVar("T")
MANIFEST, ROWS, SERIES, STATISTICS = "manifest.json", "rows.parquet", "series.parquet", "statistics.safetensors"
FILES = (ROWS, SERIES, STATISTICS)
"""The files that a cell may hold in addition to its manifest."""
FORMAT = 2
KEEP_LEVELS = ("rows", "sums", "all")
"""How much a cell may keep, from least to most."""
AT = "at"
"""In the entry of a file: its name in the folder, if that is not the plain one. Files of a replaced cell have new names."""
SEAL = '"seal": "'
"""The text before the seal. The seal is the hash of the manifest with an empty seal."""

TEXT, COUNT = (str, type(None)), (int, type(None))
FIELDS: dict[str, type] = {"key": str, "identity": dict, "columns": dict, "spec": dict, "keep": str, "files": dict}
"""The fields of every manifest, and their types."""
COLUMN_TYPES: dict[str, Any] = {"model": str, "revision": TEXT, "step": COUNT, "seed": COUNT, "modality": TEXT, "family": TEXT}
"""The fields that describe the model; only `model` is required."""
SPEC_TYPES: dict[str, Any] = {
    **dict.fromkeys(("data", "fingerprint", "counted", "special_tokens", "weights_that_do_not_fit", "unit"), str),
    **dict.fromkeys(("documents", "tokens", "sample"), int),
    "seq_len": COUNT,
    "seed": COUNT,
    "dtype": TEXT,
}
"""The fields that describe what was measured; all of them are optional."""
MOST = 1 << 63
"""Counts, and numbers of seconds and bytes, stay below this."""
GONE = (errno.ENOENT, errno.ESTALE)
"""The errors of the system for a file that was deleted, here or on another machine."""


def key_of(identity: dict[str, Any]) -> str:
    """The key of a cell: a hash of its identity.

    >>> key_of({"a": 1, "b": 2}) == key_of({"b": 2, "a": 1})
    True
    """
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:24]


def manifest_of(identity: dict[str, Any], columns: dict[str, Any], spec: dict[str, Any], keep: str, **more: Any) -> dict[str, Any]:
    """The manifest of a new cell, without its files: identity, columns about the model, what it was measured on, what it kept; and when."""
    made = {"isoscope": __version__, "created": datetime.now(UTC).isoformat(timespec="microseconds")}
    return made | {"identity": identity, "columns": columns, "spec": spec, "keep": keep} | more


def mistake_in_manifest(manifest: dict[str, Any], folder: str) -> str:
    """What is wrong with the manifest of a cell in a folder of this name; empty if nothing is."""
    # A manifest may come from a stranger, and its key and file names become paths that are read, written and deleted.
    if absent := [field for field, kind in FIELDS.items() if not isinstance(manifest.get(field), kind)]:
        return f"it lacks {', '.join(absent)}"
    if manifest["key"] != folder:
        return f"it is of the cell {manifest['key'][:40]!r}"
    if manifest["keep"] not in KEEP_LEVELS:
        return f"it kept {manifest['keep'][:40]!r}, and not {', '.join(KEEP_LEVELS)}"
    for file in manifest["files"]:
        if file not in FILES or not is_name_of(file_name(manifest, file), file):
            return f"it names the file {file_name(manifest, file) if file in FILES else file!r:.80}"
    for fields, types in ((manifest["columns"], COLUMN_TYPES), (manifest["spec"], SPEC_TYPES)):
        for name, kind in types.items():
            value = fields.get(name)
            is_wrong = not isinstance(value, kind) and (name in fields or name == "model")
            if is_wrong or (isinstance(value, int) and not -MOST <= value < MOST):
                return f"its {name} is {value!r:.40}"
    tried = manifest.get("tried", [])
    if not (isinstance(tried, list) and all(isinstance(name, str) for name in tried)):
        return f"what it tried is {tried!r:.40}"
    for cost in ("seconds", "memory"):
        value = manifest.get(cost, 0)
        if type(value) not in (int, float) or not 0 <= value < MOST:
            return f"its {cost} are {manifest[cost]!r:.40}"
    return _mistake_in_shards(manifest["identity"])


def _mistake_in_shards(identity: dict[str, Any]) -> str:
    """What is wrong with the shard of a cell, the shards that were merged into it, and the hashes of their blocks."""
    shard = identity.get("shard", [0, 1])
    if not (isinstance(shard, list) and [type(part) for part in shard] == [int, int] and 0 <= shard[0] < shard[1] < 1 << 20):
        return f"its shard is {shard!r:.40}"
    shards = identity.get("shards", shard[:1])
    if not (isinstance(shards, list) and all(type(i) is int and 0 <= i < shard[1] for i in shards) and shards == sorted(set(shards))):
        return f"its shards are {shards!r:.40}"
    blocks = identity.get("block_hashes", {})
    if not (
        isinstance(blocks, dict)
        and all(number.isdecimal() and len(number) < 20 and isinstance(digest, str) for number, digest in blocks.items())
    ):
        return f"its block hashes are {blocks!r:.40}"
    return "" if shards and (not blocks or isinstance(identity.get("source"), str)) else "it names no shard of a source"


def file_name(manifest: dict[str, Any], file: str) -> str:
    """The name that a file of a cell has in the cell's folder."""
    entry = manifest["files"][file]
    return str(entry.get(AT, file)) if isinstance(entry, dict) else file


def is_name_of(name: str, file: str) -> bool:
    """Whether a file of a cell may have this name: the plain one, or one with the mark of a writer.

    >>> is_name_of("rows.parquet", "rows.parquet"), is_name_of("rows.0a1b2c3d-12-00ff00ff.parquet", "rows.parquet")
    (True, True)
    >>> is_name_of("series.parquet", "rows.parquet"), is_name_of("rows.../../x.parquet", "rows.parquet")
    (False, False)
    """
    stem, _, suffix = file.partition(".")
    return name == file or re.fullmatch(rf"{stem}\.{WRITER}\.{suffix}", name, re.ASCII) is not None


def is_file_of_a_cell(name: str) -> bool:
    """Whether isoscope writes rows, series or statistics under this name."""
    return any(is_name_of(name, file) for file in FILES)


def seal_manifest(manifest: dict[str, Any]) -> str:
    """The text of a manifest, with its seal as the last field."""
    fields = {name: value for name, value in manifest.items() if name != "seal"}
    text = json.dumps(fields | {"seal": ""}, indent=1, ensure_ascii=False)
    at = text.rindex(SEAL) + len(SEAL)
    return f"{text[:at]}{hashlib.sha256(text.encode()).hexdigest()}{text[at:]}"


def seal_holds(text: str) -> bool | None:
    """Whether a manifest is as it was written; None if it has no seal.

    >>> seal_holds(seal_manifest({"n": 12})), seal_holds(seal_manifest({"n": 12}).replace("12", "13")), seal_holds('{"n": 12}')
    (True, False, None)
    """
    at = text.rfind(SEAL) + len(SEAL)
    if at < len(SEAL):
        return None
    seal, unsealed = text[at : at + 64], text[:at] + text[at + 64 :]
    return hashlib.sha256(unsealed.encode()).hexdigest() == seal


class RemovedError(IsoscopeError):
    """A cell was deleted while it was being read."""


@dataclass(frozen=True)
class Cell:
    """A finished cell. Only its manifest and the files that the manifest names are ever read."""

    folder: Path

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """What determined the cell, what it was measured on, and the hash of each file; read once, and again if the cell is replaced."""
        try:
            manifest = read_json(self.folder / MANIFEST, follow=False)
        except FileNotFoundError as error:
            raise RemovedError(f"{self.folder} was removed while it was being read; run the same command again.") from error
        except (OSError, ValueError) as error:
            raise self.damage_error(MANIFEST, error) from error
        if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
            raise IsoscopeError(f"{self.folder} was written in another format; delete that folder and run again.")
        if mistake := mistake_in_manifest(manifest, self.folder.name):
            raise self.damage_error(MANIFEST, mistake)
        return manifest

    @property
    def is_experiment(self) -> bool:
        """Whether the cell is of an experiment, with numbers and curves of its own, and not a measured model."""
        return "experiment" in self.manifest["identity"]

    @property
    def has_statistics(self) -> bool:
        """Whether the cell kept its statistics."""
        return STATISTICS in self.manifest["files"]

    def keeps(self, keep: str) -> bool:
        """Whether it kept at least this: `rows`, `sums` or `all`."""
        return KEEP_LEVELS.index(self.manifest["keep"]) >= KEEP_LEVELS.index(keep)

    def path_of(self, name: str) -> Path:
        """The path of `rows.parquet`, `series.parquet` or `statistics.safetensors`; an error if the manifest does not name it."""
        if name not in self.manifest["files"]:
            raise self.damage_error(MANIFEST, f"it does not name {name}")
        return self.folder / file_name(self.manifest, name)

    def damage_error(self, name: str, reason: str | BaseException) -> IsoscopeError:
        """The error to raise for a file that is not as it was written."""
        text = reason if isinstance(reason, str) else getattr(reason, "strerror", None) or str(reason)
        return IsoscopeError(f"{self.folder / name} is damaged ({text.rstrip('.')}); delete {self.folder} and run again.")

    def check(self) -> Cell:
        """Return the cell itself; raise an error if one of its files has another size than the manifest says."""
        # A link is refused, as the cell or as one of its files: it leads out of the run, and may have been put there by a stranger.
        if self.folder.is_symlink():
            raise IsoscopeError(f"{self.folder} is a link, which is not followed; delete it, or put the cell itself there.")
        self.read_consistently(self._check_sizes)
        return self

    def _check_sizes(self) -> None:
        for name in dict.fromkeys((ROWS, SERIES, *self.manifest["files"])):
            path = self.path_of(name)
            with self._unless_gone(name):
                size = regular_size(path)
            entry = self.manifest["files"][name]
            written = entry.get("bytes") if isinstance(entry, dict) else None
            if size != written:
                raise self.damage_error(name, f"{size} bytes, and {written} were written")

    @contextlib.contextmanager
    def _unless_gone(self, name: str) -> Iterator[None]:
        """Report a file that cannot be opened as damaged, unless it is gone: then `read_consistently` finds out why."""
        try:
            yield
        except OSError as error:
            if error.errno in GONE:
                raise
            raise self.damage_error(name, error) from error

    def read_consistently(self, read: Callable[[], T]) -> T:
        """Return what `read` makes of the cell's files; call it again if the cell was replaced meanwhile."""
        # A writer puts the new manifest in place before it deletes the files that the old one named. So if a file is gone while the
        # manifest on the disk is still the one that named it, the cell is damaged. Otherwise the new manifest says what to read.
        while True:
            manifest = self.manifest
            try:
                return read()
            except OSError as error:
                if error.errno not in GONE:
                    raise
                self.__dict__.pop("manifest", None)
                if self.manifest == manifest:
                    raise self.damage_error(Path(error.filename).name if error.filename else MANIFEST, error) from error

    def _read_file(self, name: str, read: Callable[[BinaryIO], T]) -> T:
        """Return what `read` makes of one file."""

        def open_and_read() -> T:
            path = self.path_of(name)
            with self._unless_gone(name):
                file = open_regular(path)
            with file:
                return read(file)

        return self.read_consistently(open_and_read)

    def _read_table(self, name: str, columns: dict[str, str]) -> pa.Table:
        try:
            table = self._read_file(name, lambda raw: read_arrow_table(raw, columns))
            table.validate(full=True)  # checks that text is valid UTF-8 too
        except (OSError, ValueError, OverflowError, MemoryError, pa.ArrowException) as error:
            raise self.damage_error(name, (str(error).splitlines() or [type(error).__name__])[0].rpartition(": ")[2]) from error
        if mistake := mistake_in_table(table):
            raise self.damage_error(name, mistake)
        return table

    def arrow_rows(self) -> pa.Table:
        """The rows as an Arrow table: thousands of these are joined much faster than frames."""
        return self._read_table(ROWS, TABLE_COLUMNS)

    def arrow_series(self) -> pa.Table:
        """The series as an Arrow table."""
        return self._read_table(SERIES, SERIES_COLUMNS)

    def rows(self) -> pd.DataFrame:
        """The numbers of the cell, one row per number."""
        return join_frames([self.arrow_rows()], TABLE_COLUMNS)

    def series(self) -> pd.DataFrame:
        """The series of the cell, one row per point."""
        return join_frames([self.arrow_series()], SERIES_COLUMNS)

    def statistics(self) -> Statistics:
        """The statistics by site."""

        def read(raw: BinaryIO) -> dict[str, np.ndarray]:
            file = TensorFile(raw)
            return {name: file.read(name) for name in file.names}

        version = self.manifest["identity"].get("statistics", VERSION)
        if version != VERSION:
            raise IsoscopeError(
                f"{self.folder} holds statistics of version {version}, and this isoscope reads version {VERSION}; measure it again."
            )
        try:
            arrays = self._read_file(STATISTICS, read)
        except (OSError, ValueError, OverflowError, MemoryError) as error:  # NumPy limits shapes too
            raise self.damage_error(STATISTICS, str(error)) from error
        if mistake := mistake_in_statistics(group_by_site(arrays)):
            raise self.damage_error(STATISTICS, mistake)
        return unpack_statistics(arrays)
