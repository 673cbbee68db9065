"""Finished runs as tables. Nothing here needs torch."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from isoscope.core.errors import IsoscopeError, nearest
from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, stacked
from isoscope.core.version import __version__
from isoscope.engine.rows import tables
from isoscope.metrics import metrics, registry
from isoscope.statistics.association import OUTCOME, PREDICTORS, associations
from isoscope.statistics.kept import Clouds, Statistics, merged
from isoscope.store.cell import Cell, key_of, pack
from isoscope.store.run import Run


class Results:
    """A run, open for reading: `table()`, `series()`, `manifests()`."""

    def __init__(self, path: str | Path) -> None:
        self.run = Run.existing(path)
        self.path = self.run.path

    def table(self, metric: str | list[str] | None = None, policy: str | None = None) -> pd.DataFrame:
        """One row a number. A metric that is not among the rows is computed from the stored statistics."""
        wanted = [metric] if isinstance(metric, str) else metric
        known = [entry.name for entry in metrics()]
        found = {str(name) for cell in self.run.cells() if _is_experiment(cell) for name in cell.rows()["metric"].unique()}
        for name in wanted or []:
            if name not in known and name not in found:
                raise IsoscopeError(f"There is no metric called {name!r}{nearest(name, known) or '; see `isoscope list metrics`.'}")
        frame = stacked([self._rows(cell, wanted or known, strict=wanted is not None) for cell in self.run.cells()], TABLE_COLUMNS)
        if wanted is not None:
            frame = frame[frame["metric"].isin(wanted)]
        if policy is not None:
            policies = sorted(frame["policy"].unique())
            if policies and policy not in policies:
                raise IsoscopeError(
                    f"The policy {policy!r} is not in this run; it has {', '.join(policies)}{nearest(policy, policies) or '.'}"
                )
            frame = frame[frame["policy"] == policy]
        return frame.reset_index(drop=True)

    def _rows(self, cell: Cell, names: list[str], *, strict: bool) -> pd.DataFrame:
        rows = cell.rows()
        absent = [name for name in names if name not in set(rows["metric"])]
        if not absent or not cell.has_statistics:
            if absent and strict and not _is_experiment(cell) and not cell.has_statistics:
                raise IsoscopeError(
                    f"{absent[0]} was not computed for {rows['model'].iloc[0]}, and the run kept only rows; measure again with --keep all."
                )
            return rows
        sites, manifest = cell.statistics(), cell.manifest
        clouds = Clouds(sites)
        readable = [name for name in absent if any(registry[name].available(c) for site in sites for _, c in clouds.of(site, "all"))]
        if not readable:
            return rows
        more, _ = tables(sites, manifest["columns"], manifest["spec"], names=readable)
        return stacked([rows, more], TABLE_COLUMNS)

    def series(self) -> pd.DataFrame:
        """What is not one number: spectra, histograms, shares of dimensions."""
        return stacked([cell.series() for cell in self.run.cells()], SERIES_COLUMNS)

    def associations(self, policy: str = "all") -> pd.DataFrame:
        """Whether drift and cosine go together over each model's layers: as published, by a valid test, and pooled by group."""
        return associations(self.table([OUTCOME, *PREDICTORS], policy))

    def statistics(self, model: str | None = None) -> Statistics:
        """The stored statistics of one model by site; `model` may be left out where the run holds only one."""
        cells = {cell.manifest["columns"]["model"]: cell for cell in self.run.cells()}
        if model is None and len(cells) > 1:
            raise IsoscopeError(f"The run holds several models; name one of {', '.join(cells)}.")
        if model is not None and model not in cells:
            raise IsoscopeError(f"The run does not hold {model!r}{nearest(model, list(cells)) or '; it holds ' + ', '.join(cells) + '.'}")
        cell = cells[model] if model is not None else next(iter(cells.values()))
        if not cell.has_statistics:
            raise IsoscopeError("The run kept only rows; measure again with --keep sums or all.")
        return cell.statistics()

    def manifests(self) -> list[dict[str, Any]]:
        """How each cell was made."""
        return [cell.manifest for cell in self.run.cells()]


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
        if _is_experiment(parts[0]):
            manifest = {name: value for name, value in parts[0].manifest.items() if name not in ("format", "key", "files")}
            target.write(parts[0].manifest["key"], manifest, parts[0].rows(), parts[0].series(), None)
        elif target.cell(key) is None:
            _merge_cells(target, key, sorted(parts, key=lambda cell: tuple(cell.manifest["identity"]["shard"])))
    return Results(out)


def _is_experiment(cell: Cell) -> bool:
    """Whether a cell is of the laboratory: it has numbers and curves of its own, and no statistics that others could be made from."""
    return "experiment" in cell.manifest["identity"]


def _merge_cells(target: Run, key: str, parts: list[Cell]) -> None:
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
            raise IsoscopeError(f"A shard of {name} kept only rows, which cannot be merged; measure it again with --keep sums or all.")
    target.prepare()
    sites = parts[0].statistics()
    for cell in parts[1:]:
        for site, statistics in cell.statistics().items():
            sites[site] = merged(sites[site], statistics) if site in sites else statistics
    sites = dict(sorted(sites.items(), key=lambda pair: pair[0].order))
    spec = first["spec"] | {
        "documents": sum(manifest["spec"]["documents"] for manifest in manifests),
        "tokens": sum(manifest["spec"]["tokens"] for manifest in manifests),
        "shard": "1/1",
        "cell": key,
    }
    keep = "sums" if any(manifest["keep"] == "sums" for manifest in manifests) else "all"
    rows, series = tables(sites, first["columns"], spec)
    manifest = {
        "isoscope": __version__,
        "created": datetime.now(UTC).isoformat(timespec="microseconds"),
        "identity": first["identity"] | {"shard": [0, 1]},
        "columns": first["columns"],
        "spec": spec,
        "keep": keep,
        "merged": [manifest["key"] for manifest in manifests],
    }
    target.write(key, manifest, rows, series, pack(sites, sample=keep == "all"))
