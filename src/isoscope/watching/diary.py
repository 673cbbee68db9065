"""The diary of a watched training: loss, learning rate, gradients, collapse and failed looks by step, as cells of the run."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd

from isoscope import __version__
from isoscope.core.table import TABLE_COLUMNS, concat_tables, make_table
from isoscope.runs.run import Run
from isoscope.runs.stored_cell import Cell, key_of
from isoscope.watching.look import TrainingNumber

EXPERIMENT = "watch"
MAX_FAILURES, MAX_CHARACTERS = 20, 20_000
"""The number of failures that a diary keeps, the first of all, and the number of characters of each."""
MAX_ROWS = 2_000
"""A cell that has this many rows is full. Each look writes its cell anew, so cells without end would make looks ever slower."""


class Diary:
    """Numbers about a training by step: cells of the run, of which the last one is rewritten as it grows."""

    def __init__(self, run: Run, columns: dict[str, Any], stack: str, start: int) -> None:
        self._run, self._columns, self._stack = run, columns, stack
        self._part, self._rows = 0, make_table([], TABLE_COLUMNS)
        self._outdated: list[Cell] = []
        """Cells of steps that a resumed training takes again."""
        self._coming: list[tuple[int, dict[str, object]]] = []
        """Rows of steps that have no cell yet."""
        self._failures: list[dict[str, object]] = []
        self._new_failures: list[dict[str, object]] = []
        self._failed = 0
        part = 0
        while (cell := run.cell(key_of(self._identity(part)))) is not None:
            rows = cell.rows()
            # A resumed training takes the steps after `start` again, so their old rows are dropped.
            earlier = rows[rows["step"].le(start).fillna(False).astype(bool)]
            failures = list(cell.manifest["spec"].get("failures", []))
            self._failed += len(failures)
            if len(earlier) or part == 0:
                self._part, self._rows, self._failures = part, earlier, failures
            else:
                self._outdated.append(cell)
            part += 1

    def _identity(self, part: int) -> dict[str, Any]:
        identity = {"experiment": EXPERIMENT, "version": 1, "model": self._columns["model"], "seed": self._columns["seed"], "shard": [0, 1]}
        return identity | ({"part": part} if part else {})

    def add(self, number: TrainingNumber) -> None:
        """Add one number of a step."""
        self._coming.append((number.step, self.row(number)))

    def row(self, number: TrainingNumber) -> dict[str, object]:
        """A number as a row of the table."""
        note = {"note": number.note} if number.note else {}
        spec = json.dumps({"experiment": EXPERIMENT, "isoscope": __version__} | note, sort_keys=True)
        where = {"step": number.step, "stack": self._stack, "kind": number.kind, "layer": number.layer, "policy": "all"}
        return self._columns | where | {"metric": number.metric, "value": number.value, "spec": spec}

    def add_failure(self, step: int, words: str) -> None:
        """Keep the report of an error at a step, with its traceback."""
        if self._failed < MAX_FAILURES:
            self._new_failures.append({"step": step, "words": words[-MAX_CHARACTERS:]})
            self._failed += 1

    def write(self, until: int) -> None:
        """Write new numbers into the run, up to the last step that has a cell: a page shows a model as it is at its last step."""
        rows = [row for step, row in self._coming if step <= until]
        if not rows and not self._new_failures:
            return
        if len(self._rows) >= MAX_ROWS:
            self._part, self._rows, self._failures = self._part + 1, make_table([], TABLE_COLUMNS), []
        table = concat_tables([self._rows, make_table(rows, TABLE_COLUMNS)], TABLE_COLUMNS)
        failures = self._failures + self._new_failures
        spec = {"experiment": EXPERIMENT, "isoscope": __version__} | ({"failures": failures} if failures else {})
        self._run.write_cell(self._identity(self._part), self._columns, spec, table, replace=True)
        # Only now: what could not be written, because the disk was full, is written with the next look.
        self._coming = [(step, row) for step, row in self._coming if step > until]
        self._rows, self._failures, self._new_failures = table, failures, []
        while self._outdated:
            self._run.remove(self._outdated.pop())


def name_values(rows: pd.DataFrame) -> dict[str, float]:
    """The values of rows over all tokens as `metric/kind_layer`, heads averaged; those without a layer as `training/metric`."""
    rows = rows[rows["policy"].eq("all") & rows["value"].notna()]
    means = rows.groupby(["metric", "kind", "layer"], sort=False, dropna=False)["value"].mean().reset_index()
    return {
        f"training/{metric}" if pd.isna(layer) else f"{metric}/{kind}_{int(layer):02d}": float(value)
        for metric, kind, layer, value in means.itertuples(index=False)
    }
