"""A run: a folder of finished cells, and of half-finished ones that can go on."""

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
from isoscope.core.table import SERIES_COLUMNS, tidy
from isoscope.statistics.kept import Statistics
from isoscope.store.abandoned import clear_abandoned
from isoscope.store.cell import Cell, RemovedError, packed
from isoscope.store.manifest import MANIFEST, key_of, manifest_of
from isoscope.store.partial import read_partial, write_partial
from isoscope.store.tensors import Arrays
from isoscope.store.writing import copy_cell, delete_cell, make_folders, receive_cell, write_cell, write_whole, writing


class Run:
    """A folder with `cells/<key>/` for what is finished and `partial/<key>.safetensors` for what is not."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._known: dict[str, tuple[tuple[int, int], Cell]] = {}  # what was read of cells, while their manifests look the same

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
        """Have the folder, and know that it can be written to, before hours of work depend on it."""
        cells, partial = self._made_folder("cells"), self._folder("partial")

        def act() -> None:
            tempfile.TemporaryFile(dir=cells).close()
            for folder in (cells, partial, self.path):
                clear_abandoned(folder)

        writing(act, self.path)

    def within(self, name: str) -> Run:
        """A run that lies in a folder of this one."""
        return Run(self._folder(name))

    def _folder(self, name: str) -> Path:
        """A folder of the run. The run itself may be reached by a link, which is the user's; one inside of it may be a stranger's."""
        folder = self.path / name
        if folder.is_symlink():
            raise IsoscopeError(f"{folder} is a link, which is not followed; put the folder itself there.")
        return folder

    def cell(self, key: str, keep: str = "rows") -> Cell | None:
        """The finished cell of this key, if there is one that kept as much."""
        folder = self._folder("cells") / key
        if not os.path.lexists(folder / MANIFEST):
            return None
        try:
            cell = Cell(folder).check()
        except RemovedError:
            return None
        return cell if cell.keeps(keep) else None

    def looks(self) -> dict[str, tuple[int, int]]:
        """How the manifest of every finished cell looks, by the cell's key: it changes when the cell is replaced, and nothing is read."""
        folder = self._folder("cells")
        found = {}
        try:
            names = sorted(entry.name for entry in os.scandir(folder) if not entry.name.startswith("."))
        except (FileNotFoundError, NotADirectoryError):
            names = []
        for name in names:
            try:
                manifest = os.lstat(f"{folder}/{name}/{MANIFEST}")
            except OSError:
                continue  # not finished, or taken away by another process
            found[name] = manifest.st_mtime_ns, manifest.st_ino
        return found

    def cells(self) -> list[Cell]:
        """Every finished cell, in the order in which they were finished. A folder without a manifest is not one."""
        known, self._known = self._known, {}
        for name, at in self.looks().items():
            with contextlib.suppress(RemovedError):
                cell = known[name][1] if name in known and known[name][0] == at else Cell(self.path / "cells" / name).check()
                self._known[name] = at, cell
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
        manifest = manifest_of(identity, columns, spec, keep, **more)
        arrays = None if statistics is None or keep == "rows" else partial(packed, statistics, sample=keep == "all")
        series = tidy([], SERIES_COLUMNS) if series is None else series
        return self.write(key_of(identity), manifest, rows, series, arrays, replace=replace)

    def write(
        self,
        key: str,
        manifest: dict[str, Any],
        rows: pd.DataFrame,
        series: pd.DataFrame,
        arrays: Arrays | None,
        *,
        replace: bool = False,
    ) -> Cell:
        """Finish a cell; its half-finished state goes. One of the same key stays unless it kept less or is to be replaced."""
        cell = write_cell(self._made_folder("cells") / key, {"key": key, **manifest}, rows, series, arrays, replace=replace)
        self.drop_partial(key)
        return cell

    def receive(self, key: str, files: dict[str, np.ndarray]) -> Cell:
        """Finish a cell that was made elsewhere, from the bytes of its files."""
        return receive_cell(self._made_folder("cells") / key, files)

    def adopt(self, cell: Cell) -> Cell:
        """Have a finished cell of another run, as it is."""
        return copy_cell(self._made_folder("cells") / str(cell.manifest["key"]), cell)

    def _made_folder(self, name: str) -> Path:
        """A folder of the run, which is made and on the disk."""
        folder = self._folder(name)
        if not folder.is_dir():
            writing(lambda: make_folders(folder), self.path)
        return folder

    def remove(self, cell: Cell) -> None:
        """Have a cell no more."""
        delete_cell(cell.folder)

    def _partial(self, key: str) -> Path:
        return self._folder("partial") / f"{key}.safetensors"

    def save_partial(self, key: str, cursor: dict[str, int], arrays: Arrays) -> None:
        """Keep the state of a cell that is under way; one file, put in place by a rename."""
        self._made_folder("partial")
        write_whole(self._partial(key), lambda temporary: write_partial(temporary, cursor, arrays))

    def load_partial(self, key: str) -> tuple[dict[str, int], dict[str, np.ndarray]] | None:
        """The state of a cell that was under way; None where there is none or it cannot be read."""
        return read_partial(self._partial(key))

    def drop_partial(self, key: str) -> None:
        """Have no state of a cell that was under way."""
        writing(lambda: self._partial(key).unlink(missing_ok=True), self.path)
