"""A run: a folder of finished cells, and of half-finished ones that can go on."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from isoscope.core.errors import IsoscopeError
from isoscope.store.cell import Cell
from isoscope.store.manifest import MANIFEST
from isoscope.store.partial import read_partial, write_partial
from isoscope.store.tensors import Arrays
from isoscope.store.writing import copy_cell, flush, receive_cell, write_cell, writing


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

        def act() -> None:
            (self.path / "cells").mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=self.path / "cells").close()

        writing(act, self.path)

    def cell(self, key: str, keep: str = "rows") -> Cell | None:
        """The finished cell of this key, if there is one that kept as much."""
        folder = self.path / "cells" / key
        if not (folder / MANIFEST).exists():
            return None
        cell = Cell(folder).check()
        return cell if cell.keeps(keep) else None

    def cells(self) -> list[Cell]:
        """Every finished cell, in the order in which they were finished. A folder without a manifest is not one."""
        folder = self.path / "cells"
        known, self._known = self._known, {}
        try:
            names = sorted(entry.name for entry in os.scandir(folder) if not entry.name.startswith("."))
        except (FileNotFoundError, NotADirectoryError):
            names = []
        for name in names:
            try:
                looks = os.stat(f"{folder}/{name}/{MANIFEST}")
            except OSError:
                continue  # not finished, or taken away by another process
            at = looks.st_mtime_ns, looks.st_ino
            self._known[name] = known[name] if name in known and known[name][0] == at else (at, Cell(folder / name).check())
        return sorted((cell for _, cell in self._known.values()), key=lambda cell: str(cell.manifest.get("created", "")))

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
        writing(lambda: (self.path / "cells").mkdir(parents=True, exist_ok=True), self.path)
        cell = write_cell(self.path / "cells" / key, {"key": key, **manifest}, rows, series, arrays, replace=replace)
        self._partial(key).unlink(missing_ok=True)
        return cell

    def receive(self, key: str, files: dict[str, np.ndarray]) -> Cell:
        """Finish a cell that was made elsewhere, from the bytes of its files."""
        writing(lambda: (self.path / "cells").mkdir(parents=True, exist_ok=True), self.path)
        return receive_cell(self.path / "cells" / key, files)

    def adopt(self, cell: Cell) -> Cell:
        """Have a finished cell of another run, as it is."""
        writing(lambda: (self.path / "cells").mkdir(parents=True, exist_ok=True), self.path)
        return copy_cell(self.path / "cells" / str(cell.manifest["key"]), cell)

    def _partial(self, key: str) -> Path:
        return self.path / "partial" / f"{key}.safetensors"

    def save_partial(self, key: str, cursor: dict[str, int], arrays: Arrays) -> None:
        """Keep the state of a cell that is under way; one file, put in place by a rename."""
        path = self._partial(key)
        temporary = path.with_suffix(f".{os.getpid()}.tmp")

        def act() -> None:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_partial(temporary, cursor, arrays)
            flush(temporary)
            temporary.replace(path)

        try:
            writing(act, self.path)
        finally:
            temporary.unlink(missing_ok=True)

    def load_partial(self, key: str) -> tuple[dict[str, int], dict[str, np.ndarray]] | None:
        """The state of a cell that was under way; None where there is none or it cannot be read."""
        return read_partial(self._partial(key))

    def drop_partial(self, key: str) -> None:
        """Have no state of a cell that was under way."""
        writing(lambda: self._partial(key).unlink(missing_ok=True), self.path)
