"""Finished runs as tables. Nothing here needs torch."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from isoscope.core.errors import IsoscopeError, nearest
from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, stacked
from isoscope.engine.rows import is_block, tables, unasked
from isoscope.metrics import curves, metrics, profiles, registry
from isoscope.statistics.association import OUTCOME, PREDICTORS, associations
from isoscope.statistics.kept import Clouds, Statistics, layout_of, merged
from isoscope.statistics.profile import Profile
from isoscope.store.cell import Cell, as_arrow, framed, packed
from isoscope.store.manifest import key_of, manifest_of
from isoscope.store.run import Run

EVERY = "every"
"""The policy that stands for all policies of a run."""


class Results:
    """A run, open for reading: `table()`, `series()`, `manifests()`."""

    def __init__(self, path: str | Path) -> None:
        self.run = Run.existing(path)
        self.path = self.run.path

    def table(self, metric: str | list[str] | None = None, policy: str = "all") -> pd.DataFrame:
        """One row per number, over all tokens. A metric that is not among the rows is computed from the stored statistics.

        Args:
            metric: one metric or several; by default all of them, except those that take seconds (`on_request`).
            policy: which tokens count: `all`, `no-special`, `body` or a part that was split off; `every` gives the rows of all policies.
        """
        wanted = [metric] if isinstance(metric, str) else metric
        known = [entry.name for entry in [*metrics(), *profiles()]]
        found = {str(name) for cell in self.run.cells() if is_experiment(cell) for name in cell.rows()["metric"].unique()}
        for name in wanted or []:
            if name not in known and name not in found:
                raise IsoscopeError(f"There is no metric called {name!r}{nearest(name, known) or '; see `isoscope list metrics`.'}")
        computed = [name for name in wanted if name in known] if wanted is not None else unasked()
        frame = framed([self._arrow_rows(cell, computed, strict=wanted is not None) for cell in self.run.cells()], TABLE_COLUMNS)
        if wanted is not None:
            frame = frame[frame["metric"].isin(wanted)]
        if policy != EVERY:
            policies = sorted(frame["policy"].unique())
            if policies and policy not in policies:
                there = f"{', '.join(policies)} and {EVERY}{nearest(policy, policies) or '.'}"
                raise IsoscopeError(f"The policy {policy!r} is not in this run; it has {there}")
            frame = frame[frame["policy"] == policy]
        return frame.reset_index(drop=True)

    def _arrow_rows(self, cell: Cell, names: list[str], *, strict: bool) -> pa.Table:
        """The rows of a cell; they become a frame by themselves only where some are to be added."""
        rows = cell.arrow_rows()
        there = set(rows["metric"].unique().to_pylist())
        if all(name in there for name in names) or not (strict or self._may_add(cell, [name for name in names if name not in there])):
            return rows
        return as_arrow(self._rows(cell, names, strict=strict), TABLE_COLUMNS)

    def _may_add(self, cell: Cell, absent: list[str]) -> bool:
        return cell.has_statistics and any(name not in cell.manifest.get("tried", []) for name in absent)

    def _rows(self, cell: Cell, names: list[str], *, strict: bool) -> pd.DataFrame:
        rows = cell.rows()
        absent = [name for name in names if name not in set(rows["metric"])]
        if not absent or not cell.has_statistics:
            if absent and strict and not is_experiment(cell) and not cell.has_statistics:
                raise IsoscopeError(
                    f"{absent[0]} was not computed for {rows['model'].iloc[0]}, and the run kept only rows; measure again with --store all."
                )
            return rows
        manifest = cell.manifest
        untried = [name for name in absent if name not in manifest.get("tried", [])]
        sites = cell.statistics() if untried else {}
        able = readable(untried, sites)
        if not able:
            return rows
        more, _ = tables(sites, manifest["columns"], manifest["spec"], names=able, layers=manifest["identity"].get("layers", "all"))
        return stacked([rows, more], TABLE_COLUMNS)

    def series(self, name: str | list[str] | None = None) -> pd.DataFrame:
        """What is not one number: spectra, histograms, shares of dimensions; those on request only where they are named."""
        wanted = [name] if isinstance(name, str) else name
        if wanted is None:
            return framed([cell.arrow_series() for cell in self.run.cells()], SERIES_COLUMNS)
        known = [entry.name for entry in curves()]
        found = {str(name) for cell in self.run.cells() if is_experiment(cell) for name in cell.series()["name"].unique()}
        for one in wanted:
            if one not in known and one not in found:
                raise IsoscopeError(f"There is no series called {one!r}{nearest(one, known) or '; there are ' + ', '.join(known) + '.'}")
        return stacked([self._curves(cell, wanted) for cell in self.run.cells()], SERIES_COLUMNS)

    def _curves(self, cell: Cell, wanted: list[str]) -> pd.DataFrame:
        """The series of a cell that are wanted, computed where they are not there."""
        stored = cell.series()
        known = {entry.name for entry in curves()}
        absent = [name for name in wanted if name in known and name not in set(stored["name"])]
        stored = stored[stored["name"].isin(wanted)]
        if not absent or is_experiment(cell):
            return stored
        if not cell.has_statistics:
            raise IsoscopeError(f"{absent[0]} was not computed, and the run kept only rows; measure again with --store all.")
        manifest = cell.manifest
        return stacked([stored, tables(cell.statistics(), manifest["columns"], manifest["spec"], names=absent)[1]], SERIES_COLUMNS)

    def associations(self, policy: str = "all") -> pd.DataFrame:
        """Whether drift and cosine go together over each model's layers: as published, by a valid test, and pooled by group."""
        return associations(self.table([OUTCOME, *PREDICTORS], policy))

    def statistics(self, model: str | None = None, step: int | None = None, seed: int | None = None) -> Statistics:
        """The stored statistics of one model by site; `model`, and of a suite `step` and `seed`, may be left out where there is one."""
        measured = [(cell, cell.manifest["columns"]) for cell in self.run.cells() if not is_experiment(cell)]
        names = list(dict.fromkeys(str(columns["model"]) for _, columns in measured))
        if model is None and len(names) > 1:
            raise IsoscopeError(f"The run holds several models; name one of {', '.join(names)}.")
        if model is not None and model not in names:
            raise IsoscopeError(f"The run does not hold {model!r}{nearest(model, names) or '; it holds ' + ', '.join(names) + '.'}")
        asked = {"step": step, "seed": seed} | ({"model": model} if model is not None else {})
        asked = {name: value for name, value in asked.items() if value is not None}
        chosen = [cell for cell, columns in measured if all(columns.get(name) == value for name, value in asked.items())]
        if not chosen:
            raise IsoscopeError(f"The run does not hold {' and '.join(f'{name} {value}' for name, value in asked.items())}.")
        if len(chosen) > 1:
            raise IsoscopeError(f"The run holds {len(chosen)} checkpoints of {model or names[0]}; name the step and the seed of one.")
        if not chosen[0].has_statistics:
            raise IsoscopeError("The run kept only rows; measure again with --store sums or all.")
        return chosen[0].statistics()

    def manifests(self) -> list[dict[str, Any]]:
        """How each cell was made."""
        return [cell.manifest for cell in self.run.cells()]


def readable(names: list[str], sites: Statistics) -> list[str]:
    """Those of these metrics that some cloud kept enough for; of profiles, the cloud of some block."""
    clouds = Clouds(sites)
    found = set()
    for site in sites:
        able = [name for name in names if name not in found and (is_block(site) or not isinstance(registry[name], Profile))]
        for _, cloud in clouds.of(site, "all") if able else ():
            found |= {name for name in able if registry[name].available(cloud)}
    return [name for name in names if name in found]


def open(path: str | Path) -> Results:
    """Open a run."""
    return Results(path)


def merge(runs: list[str | Path], out: str | Path) -> Results:
    """Merge the shards of runs into the cells of one pass; cells of different models or data stay side by side.

    Shards of the same cell must all be there, each once; a shard that two runs hold is the same and counts once.
    """
    cells: dict[str, Cell] = {}
    for run in runs:
        for cell in Run.existing(run).cells():
            cells.setdefault(cell.manifest["key"], cell)
    whole: dict[str, list[Cell]] = {}
    for cell in cells.values():
        whole.setdefault(key_of(cell.manifest["identity"] | {"shard": [0, 1]}), []).append(cell)
    target = Run(out)
    for key, parts in whole.items():
        lone = "shard" not in parts[0].manifest["identity"] or (len(parts) == 1 and parts[0].manifest["key"] == key)
        if is_experiment(parts[0]) or lone:
            target.adopt(parts[0])  # there is nothing to merge it with
        elif target.cell(key) is None:
            merge_shards(target, key, sorted(parts, key=lambda cell: tuple(cell.manifest["identity"]["shard"])))
    return Results(out)


def is_experiment(cell: Cell) -> bool:
    """Whether a cell is of the laboratory: it has numbers and curves of its own, and no statistics that others could be made from."""
    return "experiment" in cell.manifest["identity"]


def _counted(cell: Cell, what: str) -> int:
    """How many documents or tokens a cell says that it measured."""
    found = cell.manifest["spec"].get(what)
    if type(found) is not int:
        raise IsoscopeError(f"The manifest of {cell.folder} does not say how many {what} it measured; delete {cell.folder} and run again.")
    return found


def merge_shards(target: Run, key: str, parts: list[Cell], *, keep: str | None = None) -> None:
    """Merge the shards of one cell, in their order, into the cell of one pass; it keeps as much as they did unless told otherwise."""
    manifests = [cell.manifest for cell in parts]
    first = manifests[0]
    shards = [tuple(manifest["identity"]["shard"]) for manifest in manifests]
    k = shards[0][1]
    name = first["columns"]["model"]
    if any(shard[1] != k for shard in shards):
        raise IsoscopeError(
            f"The shards of {name} are of different divisions ({', '.join(f'{i + 1}/{of}' for i, of in shards)}); merge one."
        )
    absent = sorted(set(range(k)) - {i for i, _ in shards})
    if absent:
        raise IsoscopeError(f"Of {name} the shards {', '.join(f'{i + 1}/{k}' for i in absent)} are missing; measure them first.")
    for cell in parts:
        if not cell.has_statistics:
            raise IsoscopeError(f"A shard of {name} kept only rows, which cannot be merged; measure it again with --store sums or all.")
    target.prepare()
    sites = parts[0].statistics()
    for cell in parts[1:]:
        for site, statistics in cell.statistics().items():
            if site in sites and layout_of(sites[site]) != layout_of(statistics):
                raise IsoscopeError(
                    f"The shards of {name} are not of one model: {site.label} has other widths, heads or slices in {cell.folder} "
                    f"than in {parts[0].folder}; measure one of them again."
                )
            sites[site] = merged(sites[site], statistics) if site in sites else statistics
    sites = dict(sorted(sites.items(), key=lambda pair: pair[0].order))
    spec = first["spec"] | {
        "documents": sum(_counted(cell, "documents") for cell in parts),
        "tokens": sum(_counted(cell, "tokens") for cell in parts),
        "shard": "1/1",
        "cell": key,
    }
    keep = keep or ("sums" if any(manifest["keep"] == "sums" for manifest in manifests) else "all")
    rows, series = tables(sites, first["columns"], spec, layers=first["identity"].get("layers", "all"))
    identity, keys = first["identity"] | {"shard": [0, 1]}, [manifest["key"] for manifest in manifests]
    cost = {
        "seconds": round(sum(one.get("seconds", 0.0) for one in manifests), 1),
        "memory": max(one.get("memory", 0) for one in manifests),
    }
    manifest = manifest_of(identity, first["columns"], spec, keep, tried=unasked(), merged=keys, **cost)
    target.write(key, manifest, rows, series, None if keep == "rows" else partial(packed, sites, sample=keep == "all"))
