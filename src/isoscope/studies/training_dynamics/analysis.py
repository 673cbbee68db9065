"""The dynamics over a training: one cell more in a run, made of the cells of a suite's checkpoints. Nothing here needs torch."""

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
from isoscope.studies.training_dynamics.alignment_rows import alignments, directions
from isoscope.studies.training_dynamics.dimension_rows import dimension_series, dimensions
from isoscope.studies.training_dynamics.gather import gather
from isoscope.studies.training_dynamics.onset_rows import Tracks, changes, onsets
from isoscope.studies.training_dynamics.suite_measures import Gathered, MeasuredSuite, chance_levels, read_rows, row
from isoscope.studies.training_dynamics.trajectories import as_series, cloud_series, mean_series

EXPERIMENT = "dynamics"
VERSION = 1
"""Goes up when a number's meaning changes."""
SAME = ("source", "shard", "statistics", *Options.__dataclass_fields__)
"""What checkpoints of one suite have in common: all that determines a cell but its weights."""
SAID = ("data", "fingerprint", "architecture", "documents", "tokens", "counted", "seq_len", "dtype", "unit", "isoscope")
"""What a derived row repeats of what its checkpoints were measured on."""


@dataclass(frozen=True)
class MeasuredCheckpoint:
    """A measured checkpoint."""

    step: int
    seed: int | None
    cell: Cell
    manifest: dict[str, Any]


def suites(run: Run) -> list[list[MeasuredCheckpoint]]:
    """The suites in a run: cells of one model that were measured alike, at two steps or more of some seed; by seed and step.

    Of cells with the same seed and step the last that was made counts.
    """
    found: dict[str, dict[tuple[int | None, int], MeasuredCheckpoint]] = {}
    for cell in run.cells():
        manifest = cell.manifest
        columns, identity = manifest["columns"], manifest["identity"]
        if "experiment" in identity or columns.get("step") is None:
            continue
        alike = {name: identity[name] for name in SAME if name in identity}
        seed = None if columns.get("seed") is None else int(columns["seed"])
        one = MeasuredCheckpoint(int(columns["step"]), seed, cell, manifest)
        found.setdefault(json.dumps([columns["model"], alike], sort_keys=True), {})[seed, one.step] = one
    ordered = [sorted(own.values(), key=lambda one: (-1 if one.seed is None else one.seed, one.step)) for own in found.values()]
    return [own for own in ordered if len(own) > len({one.seed for one in own})]


def dynamics(run: str | Path, *, policy: str = "all", centred: bool = False) -> Results:
    """Derive the dynamics of every suite in a run; what was derived of the same cells is not computed again.

    Args:
        run: the run's folder, as `isoscope sweep` or `isoscope watch` made it.
        policy: which tokens count: `all` as in the papers, `no-special`, `body`.
        centred: bases about the mean of all steps too, as series whose names end in `_centred`.

    Returns:
        The run, open; the derived rows and series are among the others.
    """
    there = Run.existing(run)
    found = suites(there)
    if not found:
        raise IsoscopeError(f"{run} holds no suite: no model was measured there at two steps or more; `isoscope sweep SUITE` does that.")
    for suite in found:
        derive(there, suite, policy=policy, centred=centred)
    return Results(run)


def derive(run: Run, suite: list[MeasuredCheckpoint], *, policy: str = "all", centred: bool = False) -> Cell:
    """Write the derived cell of a suite in the place of those that were made of some of its cells."""
    last = suite[-1]
    columns = {name: last.manifest["columns"].get(name) for name in ("model", "modality", "family")}
    keys = [one.manifest["key"] for one in suite]
    identity = {
        "experiment": EXPERIMENT,
        "version": VERSION,
        "model": columns["model"],
        "cells": keys,
        "policy": policy,
        "centred": centred,
    }
    key = key_of(identity)
    done = run.cell(key)
    if done is None:
        spec = {name: last.manifest["spec"].get(name) for name in SAID} | {"policy": policy, "cell": key}
        about = MeasuredSuite(columns, spec, tuple((one.seed, one.step) for one in suite), policy)
        rows = read_rows([one.cell.rows() for one in suite], policy)
        if rows.empty:
            known = list(last.cell.rows()["policy"].unique())
            raise IsoscopeError(f"{columns['model']} has no policy {policy!r}; it has {', '.join(known)}{nearest(policy, known) or '.'}")
        with one_thread():  # matrices of a head are small
            seen = gather(about, [one.cell for one in suite], rows)
            table, series = tables_of(about, rows, seen, centred=centred)
        done = run.write_cell(identity, columns, spec, table, series)
    _remove_older(run, key, str(columns["model"]), set(keys))
    return done


def tables_of(suite: MeasuredSuite, rows: pd.DataFrame, seen: Gathered, *, centred: bool = False) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The derived rows and series of a suite."""
    tracks = Tracks(rows)
    made = [*onsets(suite, tracks, chance_levels(suite, rows)), *changes(suite, tracks), *directions(suite, rows)]
    made += [*alignments(suite, seen), *dimensions(suite, seen)]
    table = make_table([row(suite, **one) for one in made], TABLE_COLUMNS)
    parts = [*mean_series(suite, seen, centred=centred), *cloud_series(suite, seen, centred=centred), *dimension_series(suite, seen)]
    return table, as_series(suite, parts)


def _remove_older(run: Run, key: str, model: str, keys: set[str]) -> None:
    """Take away what was derived of some of these cells before, or of cells that are gone."""
    there = {cell.manifest["key"] for cell in run.cells()}
    for cell in run.cells():
        identity = cell.manifest["identity"]
        if identity.get("experiment") != EXPERIMENT or identity["model"] != model or cell.manifest["key"] == key:
            continue
        made_of = set(identity["cells"])
        if keys & made_of or not made_of <= there:
            run.remove(cell)


def derived(results: Results) -> list[Cell]:
    """The cells of a run that hold dynamics."""
    return [cell for cell in results.run.cells() if cell.manifest["identity"].get("experiment") == EXPERIMENT]
