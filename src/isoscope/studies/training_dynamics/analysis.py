"""The dynamics of a training: a derived cell, made from the cells of a suite's checkpoints. Nothing here needs torch."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from isoscope.core.errors import IsoscopeError, nearest
from isoscope.core.table import TABLE_COLUMNS, make_table
from isoscope.measuring.options import Options
from isoscope.runs.results import Results
from isoscope.runs.run import Run
from isoscope.runs.stored_cell import Cell, key_of
from isoscope.statistics.kernel import one_thread
from isoscope.studies.training_dynamics.alignment import alignment_rows, direction_rows
from isoscope.studies.training_dynamics.gather import Gathered, MeasuredSuite, chance_levels, gather, make_row, read_rows
from isoscope.studies.training_dynamics.onset import Tracks, change_rows, onset_rows
from isoscope.studies.training_dynamics.rise_and_fall import dimension_rows, dimension_series
from isoscope.studies.training_dynamics.trajectories import as_series, cloud_series, mean_series

EXPERIMENT = "dynamics"
VERSION = 1
"""Increased when the meaning of a number changes."""
SAME = ("source", "shard", "statistics", *Options.__dataclass_fields__)
"""The checkpoints of a suite have these in common: everything that determines a cell except its weights."""
REPEATED = ("data", "fingerprint", "architecture", "documents", "tokens", "counted", "seq_len", "dtype", "unit", "isoscope")
"""A derived row repeats these settings of its checkpoints."""


@dataclass(frozen=True)
class MeasuredCheckpoint:
    """A measured checkpoint."""

    step: int
    seed: int | None
    cell: Cell
    manifest: dict[str, Any]


def suites(run: Run) -> list[list[MeasuredCheckpoint]]:
    """The suites of a run, each ordered by seed and step: cells of one model with equal settings, at two steps or more of some seed.

    If several cells have the same seed and step, the newest counts.
    """
    by_settings: dict[str, dict[tuple[int | None, int], MeasuredCheckpoint]] = {}
    for cell in run.cells():
        manifest = cell.manifest
        columns, identity = manifest["columns"], manifest["identity"]
        if "experiment" in identity or columns.get("step") is None:
            continue
        alike = {name: identity[name] for name in SAME if name in identity}
        seed = None if columns.get("seed") is None else int(columns["seed"])
        checkpoint = MeasuredCheckpoint(int(columns["step"]), seed, cell, manifest)
        by_settings.setdefault(json.dumps([columns["model"], alike], sort_keys=True), {})[seed, checkpoint.step] = checkpoint
    ordered = [sorted(suite.values(), key=lambda at: (-1 if at.seed is None else at.seed, at.step)) for suite in by_settings.values()]
    return [suite for suite in ordered if len(suite) > len({checkpoint.seed for checkpoint in suite})]


def dynamics(run: str | Path, *, policy: str = "all", centred: bool = False) -> Results:
    """Derive the dynamics of every suite in a run. Nothing is computed again for cells that are already included.

    Args:
        run: the folder of a run of `isoscope sweep` or `isoscope watch`.
        policy: the tokens that count: `all` as in the papers, `no-special` or `body`.
        centred: also project on components around the mean of all steps, as series whose names end in `_centred`.

    Returns:
        The results of the run, which now include the derived rows and series.
    """
    folder = Run.existing(run)
    measured = suites(folder)
    if not measured:
        raise IsoscopeError(f"{run} holds no suite: no model was measured there at two steps or more; `isoscope sweep SUITE` does that.")
    for suite in measured:
        derive(folder, suite, policy=policy, centred=centred)
    return Results(run)


def derive(run: Run, suite: list[MeasuredCheckpoint], *, policy: str = "all", centred: bool = False) -> Cell:
    """Write the derived cell of a suite. It replaces cells that were derived from fewer checkpoints."""
    last = suite[-1]
    columns = {name: last.manifest["columns"].get(name) for name in ("model", "modality", "family")}
    keys = [one.manifest["key"] for one in suite]
    identity = {"experiment": EXPERIMENT, "version": VERSION, "model": columns["model"]}
    identity |= {"cells": keys, "policy": policy, "centred": centred}
    key = key_of(identity)
    cell = run.cell(key)
    if cell is None:
        spec = {name: last.manifest["spec"].get(name) for name in REPEATED} | {"policy": policy, "cell": key}
        about = MeasuredSuite(columns, spec, tuple((one.seed, one.step) for one in suite), policy)
        rows = read_rows([one.cell.rows() for one in suite], policy)
        if rows.empty:
            known = list(last.cell.rows()["policy"].unique())
            raise IsoscopeError(f"{columns['model']} has no policy {policy!r}; it has {', '.join(known)}{nearest(policy, known) or '.'}")
        with one_thread():  # the matrices of a head are so small that threads cost more than they save
            seen = gather(about, [one.cell for one in suite], rows)
            table, series = tables_of(about, rows, seen, centred=centred)
        cell = run.write_cell(identity, columns, spec, table, series)
    # Only now, so that a run that is killed while it derives keeps the older dynamics.
    _remove_older(run, key, str(columns["model"]), set(keys))
    return cell


def tables_of(suite: MeasuredSuite, rows: pd.DataFrame, seen: Gathered, *, centred: bool = False) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The derived rows and series of a suite."""
    tracks = Tracks(rows)
    made = [*onset_rows(suite, tracks, chance_levels(suite, rows)), *change_rows(suite, tracks), *direction_rows(suite, rows)]
    made += [*alignment_rows(suite, seen), *dimension_rows(suite, seen)]
    table = make_table([make_row(suite, **columns) for columns in made], TABLE_COLUMNS)
    parts = [*mean_series(suite, seen, centred=centred), *cloud_series(suite, seen, centred=centred), *dimension_series(suite, seen)]
    return table, as_series(suite, parts)


def _remove_older(run: Run, key: str, model: str, keys: set[str]) -> None:
    """Remove cells that were derived earlier from some of these cells, or from cells that no longer exist."""
    present = {cell.manifest["key"] for cell in run.cells()}
    for cell in run.cells():
        identity = cell.manifest["identity"]
        if identity.get("experiment") != EXPERIMENT or identity["model"] != model or cell.manifest["key"] == key:
            continue
        made_of = set(identity["cells"])
        if keys & made_of or not made_of <= present:
            run.remove(cell)


def derived_cells(results: Results) -> list[Cell]:
    """The cells of a run that hold dynamics."""
    return [cell for cell in results.run.cells() if cell.manifest["identity"].get("experiment") == EXPERIMENT]
