"""What a training reports in addition to its geometry: loss, learning rate, gradients, collapse, looks that failed."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd

from isoscope import __version__
from isoscope.core.table import TABLE_COLUMNS, concat_tables, make_table
from isoscope.measuring.module_feeder import STACK
from isoscope.runs.run import Run
from isoscope.runs.stored_cell import key_of

EXPERIMENT = "watch"
FAILURES, LONGEST = 20, 20_000
"""How many failures a diary keeps, the first ones, and how many characters of each."""


class Diary:
    """The numbers of a training by step: one cell of the run, written anew as it grows."""

    def __init__(self, run: Run, columns: dict[str, Any], start: int) -> None:
        self._run, self._columns = run, columns
        self._identity = {"experiment": EXPERIMENT, "version": 1, "model": columns["model"], "seed": columns["seed"], "shard": [0, 1]}
        self._key = key_of(self._identity)
        before = run.cell(self._key)
        rows = make_table([], TABLE_COLUMNS) if before is None else before.rows()
        self._earlier = rows[rows["step"].le(start).fillna(False).astype(bool)]  # a resumed training continues from there
        self._rows: list[dict[str, object]] = []
        self._failures: list[dict[str, object]] = [] if before is None else list(before.manifest["spec"].get("failures", []))
        self._written = 0, len(self._failures)

    def add(self, step: int, metric: str, value: float, *, kind: str = "hidden", layer: int | None = None, note: str = "") -> None:
        """One number of a step; without a layer it is of the whole stack."""
        spec = json.dumps({"experiment": EXPERIMENT, "isoscope": __version__} | ({"note": note} if note else {}), sort_keys=True)
        where = {"step": step, "stack": STACK, "kind": kind, "layer": layer, "policy": "all"}
        self._rows.append(self._columns | where | {"metric": metric, "value": value, "spec": spec})

    def add_failure(self, step: int, words: str) -> None:
        """Keep what went wrong at a step, with its traceback."""
        if len(self._failures) < FAILURES:
            self._failures.append({"step": step, "words": words[-LONGEST:]})

    def at(self, step: int) -> pd.DataFrame:
        """The numbers of one step."""
        return make_table([row for row in self._rows if row["step"] == step], TABLE_COLUMNS)

    def write(self, until: int) -> None:
        """Put what is new into the run, up to the last step that has a cell: a page shows a model as it is at its last step."""
        rows = [row for row in self._rows if isinstance(step := row["step"], int) and step <= until]
        if len(rows) > self._written[0] or len(self._failures) > self._written[1]:
            table = concat_tables([self._earlier, make_table(rows, TABLE_COLUMNS)], TABLE_COLUMNS)
            spec = {"experiment": EXPERIMENT, "isoscope": __version__} | ({"failures": self._failures} if self._failures else {})
            self._run.write_cell(self._identity, self._columns, spec, table, replace=True)
            self._written = len(rows), len(self._failures)
