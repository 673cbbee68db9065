"""Where the numbers of a watched step go: into the run, as a cell of their own, and to the user's loggers."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import pandas as pd

from isoscope import __version__
from isoscope.core.errors import IsoscopeError, nearest
from isoscope.core.table import TABLE_COLUMNS, concat_tables, make_table
from isoscope.measuring.module_feeder import STACK
from isoscope.runs.run import Run
from isoscope.runs.stored_cell import key_of

EXPERIMENT = "watch"
MAX_FAILURES, MAX_CHARACTERS = 20, 20_000
"""The number of failures that a diary keeps, the first of all, and the number of characters of each."""
LOG_TAKES = "log takes 'tensorboard', or an object with log(step, values) and close(), or several"


class Diary:
    """Loss, learning rate, gradients, collapse and failed looks by step: one cell of the run, rewritten as it grows."""

    def __init__(self, run: Run, columns: dict[str, Any], start: int) -> None:
        self._run, self._columns = run, columns
        self._identity = {"experiment": EXPERIMENT, "version": 1, "model": columns["model"], "seed": columns["seed"], "shard": [0, 1]}
        self._key = key_of(self._identity)
        before = run.cell(self._key)
        rows = make_table([], TABLE_COLUMNS) if before is None else before.rows()
        # A resumed training takes the steps after `start` again, so their old rows are dropped.
        self._earlier = rows[rows["step"].le(start).fillna(False).astype(bool)]
        self._rows: list[dict[str, object]] = []
        self._failures: list[dict[str, object]] = [] if before is None else list(before.manifest["spec"].get("failures", []))
        self._written = 0, len(self._failures)

    def add(self, step: int, metric: str, value: float, *, kind: str = "hidden", layer: int | None = None, note: str = "") -> None:
        """Add one number of a step; without a layer it belongs to the whole stack."""
        spec = json.dumps({"experiment": EXPERIMENT, "isoscope": __version__} | ({"note": note} if note else {}), sort_keys=True)
        where = {"step": step, "stack": STACK, "kind": kind, "layer": layer, "policy": "all"}
        self._rows.append(self._columns | where | {"metric": metric, "value": value, "spec": spec})

    def add_failure(self, step: int, words: str) -> None:
        """Keep the report of an error at a step, with its traceback."""
        if len(self._failures) < MAX_FAILURES:
            self._failures.append({"step": step, "words": words[-MAX_CHARACTERS:]})

    def at(self, step: int) -> pd.DataFrame:
        """The numbers of one step."""
        return make_table([row for row in self._rows if row["step"] == step], TABLE_COLUMNS)

    def write(self, until: int) -> None:
        """Write new numbers into the run, up to the last step that has a cell: a page shows a model as it is at its last step."""
        rows = [row for row in self._rows if isinstance(step := row["step"], int) and step <= until]
        if len(rows) > self._written[0] or len(self._failures) > self._written[1]:
            table = concat_tables([self._earlier, make_table(rows, TABLE_COLUMNS)], TABLE_COLUMNS)
            spec = {"experiment": EXPERIMENT, "isoscope": __version__} | ({"failures": self._failures} if self._failures else {})
            self._run.write_cell(self._identity, self._columns, spec, table, replace=True)
            self._written = len(rows), len(self._failures)


@runtime_checkable
class Logger(Protocol):
    """Anything that takes numbers by name, step by step."""

    def log(self, step: int, values: dict[str, float]) -> None:
        """Take the numbers of one step."""

    def close(self) -> None:
        """Close the logger; no more numbers follow."""


class TensorBoard:
    """Event files for TensorBoard."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise IsoscopeError("log='tensorboard' needs the package tensorboard; install it with pip install tensorboard.") from error
        self._writer = SummaryWriter(str(folder))

    def log(self, step: int, values: dict[str, float]) -> None:
        """Take the numbers of one step."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self) -> None:
        """Close the event file."""
        self._writer.close()


def open_loggers(log: str | Logger | Iterable[str | Logger] | None, out: Path) -> list[Logger]:
    """The loggers that a user asks for: by name, as an object, several of them, or none."""
    if log is None:
        return []
    if log == "tensorboard":
        return [TensorBoard(out / "tensorboard")]
    if isinstance(log, str):
        raise IsoscopeError(f"{LOG_TAKES}; got {log!r}{nearest(log, ['tensorboard']) or '.'}")
    if isinstance(log, Logger):
        return [log]
    if isinstance(log, Iterable):
        return [logger for entry in log for logger in open_loggers(entry, out)]
    raise IsoscopeError(f"{LOG_TAKES}; got {type(log).__name__}.")


def name_values(rows: pd.DataFrame) -> dict[str, float]:
    """The values of rows over all tokens as `metric/kind_layer`, heads averaged; those without a layer as `training/metric`."""
    rows = rows[rows["policy"].eq("all") & rows["value"].notna()]
    means = rows.groupby(["metric", "kind", "layer"], sort=False, dropna=False)["value"].mean().reset_index()
    return {
        f"training/{metric}" if pd.isna(layer) else f"{metric}/{kind}_{int(layer):02d}": float(value)
        for metric, kind, layer, value in means.itertuples(index=False)
    }
