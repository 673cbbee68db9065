"""Metrics and series that take seconds, of every model of a run: computed in one go, shown as they come, and remembered beside it."""

from __future__ import annotations

from typing import Any

import pandas as pd

from isoscope.core.errors import IsoscopeError
from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, concat_tables
from isoscope.core.version import __version__
from isoscope.engine.progress import Progress
from isoscope.engine.results import Results, is_experiment, readable
from isoscope.engine.rows import tables
from isoscope.metrics import curves
from isoscope.store.cell import Cell
from isoscope.store.manifest import key_of, manifest_of
from isoscope.store.run import Run

REQUESTED = "requested"
"""The folder within a run where what was asked for is remembered: a run of its own, which no table reads."""

Tables = tuple[pd.DataFrame, pd.DataFrame]


def on_request(results: Results, names: list[str], progress: Progress) -> Tables:
    """Metrics and series of these names, of every model; of a suite only of the last step of its first longest seed."""
    cells = [cell for cell in standing(results.run.cells()) if cell.has_statistics] if names else []
    found = [_of(cell, names, results.run.within(REQUESTED), progress) for cell in cells]
    return concat_tables([rows for rows, _ in found], TABLE_COLUMNS), concat_tables([points for _, points in found], SERIES_COLUMNS)


def standing(cells: list[Cell]) -> list[Cell]:
    """The measured cells, of the checkpoints of a suite the one that stands for it."""
    measured = [(cell, cell.manifest["columns"]) for cell in cells if not is_experiment(cell)]
    seeds: dict[str, dict[Any, list[int]]] = {}
    for _, columns in measured:
        if columns.get("step") is not None:
            seeds.setdefault(columns["model"], {}).setdefault(columns.get("seed"), []).append(columns["step"])
    last = {model: max(own.items(), key=lambda one: len(one[1])) for model, own in seeds.items()}
    chosen = {(model, seed, max(steps)) for model, (seed, steps) in last.items()}
    return [
        cell
        for cell, columns in measured
        if columns.get("step") is None or (columns["model"], columns.get("seed"), columns["step"]) in chosen
    ]


def _of(cell: Cell, names: list[str], kept: Run, progress: Progress) -> Tables:
    """What a cell has of these names: from its tables, from what is remembered, or computed, each cloud once for all of them."""
    rows, series = cell.rows(), cell.series()
    there = {*rows["metric"], *series["name"], *cell.manifest.get("tried", [])}
    rows, series = rows[rows["metric"].isin(names)], series[series["name"].isin(names)]
    absent = sorted(name for name in names if name not in there)
    if not absent:
        return rows, series
    manifest = cell.manifest
    identity = {"requested": absent, "cell": manifest["key"], "made": manifest.get("created"), "isoscope": __version__}
    found = kept.cell(key := key_of(identity))
    if found is None:
        sites, lines = cell.statistics(), {curve.name for curve in curves()}
        wanted = [name for name in absent if name in lines] + readable([name for name in absent if name not in lines], sites)
        model = manifest["columns"]["model"]
        progress.note(f"{model}: {', '.join(wanted) or 'nothing'} on request")
        with progress.bar(f"{model}: on request", len(sites), "sites") as bar:
            layers = manifest["identity"].get("layers", "all")
            more = tables(sites, manifest["columns"], manifest["spec"], names=wanted, layers=layers, progress=bar.advance)
        try:
            kept.write(key, manifest_of(identity, manifest["columns"], {}, "rows"), *more, None)
        except IsoscopeError:  # a run that cannot be written to is read all the same
            progress.note(f"{kept.path} cannot be written to: what was computed is not remembered.")
    else:
        more = found.rows(), found.series()
    return concat_tables([rows, more[0]], TABLE_COLUMNS), concat_tables([series, more[1]], SERIES_COLUMNS)
