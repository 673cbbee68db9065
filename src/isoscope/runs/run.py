"""A run: a folder of finished cells, and of partial states from which unfinished cells resume."""

from __future__ import annotations

import contextlib
import os
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from isoscope.core.errors import IsoscopeError
from isoscope.core.table import SERIES_COLUMNS, make_table
from isoscope.runs.stored_cell import MANIFEST, Cell, RemovedError, key_of, manifest_of
from isoscope.runs.tensors import Arrays, pack_statistics, read_partial, write_partial
from isoscope.runs.writing import (
    clear_abandoned,
    copy_cell,
    delete_cell,
    disk_errors_as_user_errors,
    make_folders,
    receive_cell,
    write_atomically,
    write_cell,
)
from isoscope.statistics.any_statistics import Statistics


class Run:
    """A folder with `cells/<key>/` for finished cells and `partial/<key>.safetensors` for unfinished ones."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._known: dict[str, tuple[tuple[int, int], Cell]] = {}  # cells that were read before, with the stamps of their manifests

    @classmethod
    def existing(cls, path: str | Path) -> Run:
        """The run in a folder that must hold one."""
        run = cls(path)
        if not run.path.exists():
            raise IsoscopeError(f"There is no run at {path}; isoscope measure MODEL --out {path} makes one.")
        if not run.path.is_dir():
            raise IsoscopeError(f"{path} is a file; a run is a folder, which isoscope measure MODEL --out FOLDER makes.")
        if not run.cells():
            raise IsoscopeError(f"{path} holds no finished cell; isoscope measure MODEL --out {path} makes one.")
        return run

    def prepare(self) -> None:
        """Make the folder and check that it can be written to, before hours of work depend on it; clear up after killed processes."""
        cells, unfinished = self._make_folder("cells"), self._folder("partial")
        with disk_errors_as_user_errors(self.path):
            tempfile.TemporaryFile(dir=cells).close()
            for folder in (cells, unfinished, self.path):
                clear_abandoned(folder)

    def within(self, name: str) -> Run:
        """A run that lies in a folder of this one."""
        return Run(self._folder(name))

    def _folder(self, name: str) -> Path:
        """A folder of the run, which must not be a link."""
        # A link to the run itself is the user's. A link inside it may come from a stranger, and lead anywhere.
        folder = self.path / name
        if folder.is_symlink():
            raise IsoscopeError(f"{folder} is a link, which is not followed; put the folder itself there.")
        return folder

    def cell(self, key: str, keep: str = "rows") -> Cell | None:
        """The finished cell of this key; None if there is none that kept as much."""
        folder = self._folder("cells") / key
        if not os.path.lexists(folder / MANIFEST):
            return None
        try:
            # Between the look above and this one another process may delete the cell: then it is not there, which is no error.
            cell = Cell(folder).check()
        except RemovedError:
            return None
        return cell if cell.keeps(keep) else None

    def manifest_stamps(self) -> dict[str, tuple[int, int]]:
        """Time and inode of the manifest of every finished cell, by key. They change when a cell is replaced, and no file is read."""
        folder = self._folder("cells")
        stamps = {}
        try:
            names = sorted(entry.name for entry in os.scandir(folder) if not entry.name.startswith("."))
        except (FileNotFoundError, NotADirectoryError):
            names = []
        for name in names:
            try:
                manifest = os.lstat(f"{folder}/{name}/{MANIFEST}")
            except OSError:
                continue  # not finished, or deleted by another process
            stamps[name] = manifest.st_mtime_ns, manifest.st_ino
        return stamps

    def cells(self) -> list[Cell]:
        """All finished cells, in the order in which they were finished. A folder without a manifest is not finished."""
        known, self._known = self._known, {}
        for name, stamp in self.manifest_stamps().items():
            with contextlib.suppress(RemovedError):
                cell = known[name][1] if name in known and known[name][0] == stamp else Cell(self.path / "cells" / name).check()
                self._known[name] = stamp, cell
        return sorted((cell for _, cell in self._known.values()), key=lambda cell: str(cell.manifest.get("created", "")))

    def write_cell(
        self,
        identity: dict[str, Any],
        columns: dict[str, Any],
        spec: dict[str, Any],
        rows: pd.DataFrame,
        series: pd.DataFrame | None = None,
        statistics: Statistics | None = None,
        *,
        keep: str = "rows",
        replace: bool = False,
        **more: Any,
    ) -> Cell:
        """Write a finished cell; its partial state is deleted.

        Args:
            identity: everything that determines the cell; its hash is the cell's key.
            columns: what its rows say about the model.
            spec: what it was measured on, and how.
            rows, series: its two tables.
            statistics: by site, of which `keep` says how much is kept: `rows` none, `sums` all but the samples, `all` everything.
            replace: replace a cell of the same key. Without it, such a cell stays unless it kept less.
            more: further fields of the manifest, such as `seconds`.
        """
        key, manifest = key_of(identity), manifest_of(identity, columns, spec, keep, **more)
        arrays = None if statistics is None or keep == "rows" else partial(pack_statistics, statistics, sample=keep == "all")
        series = make_table([], SERIES_COLUMNS) if series is None else series
        cell = write_cell(self._make_folder("cells") / key, {"key": key, **manifest}, rows, series, arrays, replace=replace)
        self.drop_partial(key)
        return cell

    def receive_cell(self, key: str, files: dict[str, np.ndarray]) -> Cell:
        """Write a cell that another machine made, from the bytes of its files."""
        return receive_cell(self._make_folder("cells") / key, files)

    def copy_cell(self, cell: Cell) -> Cell:
        """Copy a finished cell of another run, unchanged."""
        return copy_cell(self._make_folder("cells") / str(cell.manifest["key"]), cell)

    def _make_folder(self, name: str) -> Path:
        """A folder of the run, which is made if it is not there."""
        folder = self._folder(name)
        if not folder.is_dir():
            with disk_errors_as_user_errors(self.path):
                make_folders(folder)
        return folder

    def remove(self, cell: Cell) -> None:
        """Delete a cell."""
        delete_cell(cell.folder)

    def _partial(self, key: str) -> Path:
        return self._folder("partial") / f"{key}.safetensors"

    def save_partial(self, key: str, cursor: dict[str, int], arrays: Arrays) -> None:
        """Save the state of an unfinished cell, from which the next command resumes."""
        self._make_folder("partial")
        write_atomically(self._partial(key), lambda temporary: write_partial(temporary, cursor, arrays))

    def load_partial(self, key: str) -> tuple[dict[str, int], dict[str, np.ndarray]] | None:
        """The state of an unfinished cell; None if there is none or it cannot be read, and then the cell starts over."""
        return read_partial(self._partial(key))

    def drop_partial(self, key: str) -> None:
        """Delete the state of a cell that is finished or starts over."""
        with disk_errors_as_user_errors(self.path):
            self._partial(key).unlink(missing_ok=True)
