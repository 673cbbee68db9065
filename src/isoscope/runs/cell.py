"""One finished cell: rows and series as Parquet, statistics as safetensors, and a manifest, which is written last."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa

from isoscope.core.errors import IsoscopeError
from isoscope.core.site import Site
from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, make_table
from isoscope.runs.manifest import FORMAT, KEEP_LEVELS, MANIFEST, ROWS, SERIES, STATISTICS, file_name, mistake_in
from isoscope.runs.states import mistake_in_statistics
from isoscope.runs.tables import mistake_in_table
from isoscope.runs.tensors import TensorFile
from isoscope.statistics.any_statistics import Statistics, from_state, state_of
from isoscope.statistics.site_statistics import VERSION
from isoscope.trust.parquet_layout import open_checked_parquet
from isoscope.trust.safe_io import open_regular, read_json, regular_size

T = TypeVar("T")
GONE = (errno.ENOENT, errno.ESTALE)
"""The errors of the system for a file that was deleted, here or on another machine."""


def packed(sites: Statistics, *, sample: bool = True) -> Iterator[tuple[str, np.ndarray]]:
    """Statistics as named arrays, those of one site at a time."""
    for site, statistics in sites.items():
        for name, array in state_of(statistics, sample=sample).items():
            yield f"{site.label}/{name}", array


def by_label(arrays: dict[str, np.ndarray]) -> dict[str, dict[str, np.ndarray]]:
    """The state of each site, from arrays whose names begin with its label."""
    states: dict[str, dict[str, np.ndarray]] = {}
    for name, array in arrays.items():
        label, _, rest = name.partition("/")
        states.setdefault(label, {})[rest] = array
    return states


def unpack(arrays: dict[str, np.ndarray]) -> Statistics:
    """Statistics by site from named arrays: the inverse of `packed`."""
    sites = {site: from_state(site.kind, state) for label, state in by_label(arrays).items() for site in [Site.parse(label)]}
    return dict(sorted(sites.items(), key=lambda pair: pair[0].order))


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
            raise self.damaged(MANIFEST, getattr(error, "strerror", None) or str(error)) from error
        if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
            raise IsoscopeError(f"{self.folder} was written in another format; delete that folder and run again.")
        if mistake := mistake_in(manifest, self.folder.name):
            raise self.damaged(MANIFEST, mistake)
        return manifest

    def check(self) -> Cell:
        """Return the cell itself; raise an error if one of its files has another size than the manifest says."""
        # A link is refused, as the cell or as one of its files: it leads out of the run, and may have been put there by a stranger.
        if self.folder.is_symlink():
            raise IsoscopeError(f"{self.folder} is a link, which is not followed; delete it, or put the cell itself there.")
        self.read_consistently(self._check_sizes)
        return self

    def _check_sizes(self) -> None:
        for name in (ROWS, SERIES):
            self.path_of(name)
        for name, entry in self.manifest["files"].items():
            try:
                size = regular_size(self.path_of(name))
            except OSError as error:
                if error.errno in GONE:
                    raise
                raise self.damaged(name, error.strerror or str(error)) from error
            written = entry.get("bytes") if isinstance(entry, dict) else None
            if size != written:
                raise self.damaged(name, f"{size} bytes, and {written} were written")

    def path_of(self, name: str) -> Path:
        """The path of `rows.parquet`, `series.parquet` or `statistics.safetensors`; an error if the manifest does not name it."""
        if name not in self.manifest["files"]:
            raise self.damaged(MANIFEST, f"it does not name {name}")
        return self.folder / file_name(self.manifest, name)

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
                    name = Path(error.filename).name if error.filename else MANIFEST
                    raise self.damaged(name, error.strerror or str(error)) from error

    def _read(self, name: str, read: Callable[[BinaryIO], T]) -> T:
        """Return what `read` makes of one file."""

        def open_and_read() -> T:
            try:
                file = open_regular(self.path_of(name))
            except OSError as error:
                if error.errno in GONE:
                    raise
                raise self.damaged(name, error.strerror or str(error)) from error
            with file:
                return read(file)

        return self.read_consistently(open_and_read)

    def keeps(self, keep: str) -> bool:
        """Whether it kept at least this: `rows`, `sums` or `all`."""
        return KEEP_LEVELS.index(self.manifest["keep"]) >= KEEP_LEVELS.index(keep)

    def damaged(self, name: str, reason: str) -> IsoscopeError:
        """The error to raise for a file that is not as it was written."""
        return IsoscopeError(f"{self.folder / name} is damaged ({reason.rstrip('.')}); delete {self.folder} and run again.")

    def _parquet(self, name: str, columns: dict[str, str]) -> pd.DataFrame:
        return join_frames([self._arrow(name, columns)], columns)

    def _arrow(self, name: str, columns: dict[str, str]) -> pa.Table:
        """A table as an Arrow table: thousands of them are joined much faster than frames."""

        def read(raw: BinaryIO) -> pa.Table:
            size = os.fstat(raw.fileno()).st_size
            with open_checked_parquet(raw) as file:
                if (count := file.metadata.num_rows) > size:
                    raise ValueError(f"it claims {count:,} rows in {size:,} bytes")
                if absent := [name for name in columns if name not in file.schema_arrow.names]:
                    raise ValueError(f"it lacks the column {absent[0]}")
                return file.read(list(columns), use_threads=False).select(list(columns)).cast(_schema(tuple(columns.items())))

        try:
            table = self._read(name, read)
            table.validate(full=True)  # checks that text is valid UTF-8 too
        except (OSError, ValueError, OverflowError, MemoryError, pa.ArrowException) as error:
            raise self.damaged(name, (str(error).splitlines() or [type(error).__name__])[0].rpartition(": ")[2]) from error
        if mistake := mistake_in_table(table):
            raise self.damaged(name, mistake)
        return table

    def arrow_rows(self) -> pa.Table:
        """The numbers of the cell as an Arrow table."""
        return self._arrow(ROWS, TABLE_COLUMNS)

    def arrow_series(self) -> pa.Table:
        """The series of the cell as an Arrow table."""
        return self._arrow(SERIES, SERIES_COLUMNS)

    def rows(self) -> pd.DataFrame:
        """The numbers of the cell, one row per number."""
        return self._parquet(ROWS, TABLE_COLUMNS)

    def series(self) -> pd.DataFrame:
        """The series of the cell, one row per point."""
        return self._parquet(SERIES, SERIES_COLUMNS)

    @property
    def is_experiment(self) -> bool:
        """Whether the cell is of an experiment, with numbers and curves of its own, and not a measured model."""
        return "experiment" in self.manifest["identity"]

    @property
    def has_statistics(self) -> bool:
        """Whether the cell kept its statistics."""
        return STATISTICS in self.manifest["files"]

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
            arrays = self._read(STATISTICS, read)
        except (OSError, ValueError, OverflowError, MemoryError) as error:  # NumPy limits shapes too
            raise self.damaged(STATISTICS, str(error)) from error
        if mistake := mistake_in_statistics(by_label(arrays)):
            raise self.damaged(STATISTICS, mistake)
        return unpack(arrays)


@lru_cache
def _schema(columns: tuple[tuple[str, str], ...]) -> pa.Schema:
    kinds = {"string": pa.large_string(), "Int64": pa.int64(), "float64": pa.float64()}
    return pa.schema([(name, kinds[kind]) for name, kind in columns])


def join_frames(tables: list[pa.Table], columns: dict[str, str]) -> pd.DataFrame:
    """Arrow tables, one below the other, as one frame with these columns and types."""
    if not tables:
        return make_table([], columns)
    types = {pa.int64(): pd.Int64Dtype(), pa.large_string(): pd.StringDtype()}
    # Combined into one chunk: with a chunk of text per cell, every choice of rows would look at each of thousands of chunks.
    joined = pa.concat_tables(tables).replace_schema_metadata(None).combine_chunks()
    frame: pd.DataFrame = joined.to_pandas(types_mapper=types.get)
    return frame.astype(columns)


def arrow_table(frame: pd.DataFrame, columns: dict[str, str]) -> pa.Table:
    """A frame as an Arrow table with the types of the tables in cells."""
    return pa.Table.from_pandas(frame[list(columns)], preserve_index=False).cast(_schema(tuple(columns.items())))
