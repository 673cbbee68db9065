"""Merge runs: the shards of a cell become the cell of one pass. Nothing here needs torch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from isoscope.core.errors import IsoscopeError
from isoscope.runs.results import Results
from isoscope.runs.rows import default_metrics, tables
from isoscope.runs.run import Run
from isoscope.runs.stored_cell import Cell, key_of
from isoscope.statistics.any_statistics import Statistics, layout_of, merge_statistics

WHOLE = [0, 1]
"""The shard of a cell that is measured in one piece: the first of one."""


def merge(runs: list[str | Path], out: str | Path) -> Results:
    """Merge the shards of runs into the cells of one pass; cells of different models or data stay separate.

    All shards of a cell must be there. If two runs hold the same shard, it counts once.
    """
    cells: dict[str, Cell] = {}
    for run in runs:
        for cell in Run.existing(run).cells():
            cells.setdefault(cell.manifest["key"], cell)
    shards_by_key: dict[str, list[Cell]] = {}
    for cell in cells.values():
        shards_by_key.setdefault(key_of(cell.manifest["identity"] | {"shard": WHOLE}), []).append(cell)
    target = Run(out)
    for key, shards in shards_by_key.items():
        first = shards[0]
        is_whole = "shard" not in first.manifest["identity"] or (len(shards) == 1 and first.manifest["key"] == key)
        if first.is_experiment or is_whole:
            target.copy_cell(first)
        elif target.cell(key) is None:
            merge_shards(target, sorted(shards, key=_shard_of))
    return Results(out)


def merge_shards(target: Run, shards: Sequence[Cell], *, keep: str | None = None) -> Cell:
    """Merge the shards of one cell, in their order, and write the cell of one pass; it keeps as much as they did, or `keep`."""
    manifests = [cell.manifest for cell in shards]
    first = manifests[0]
    _check_shards(shards, str(first["columns"]["model"]))
    target.prepare()
    # Sums of floats depend on the order in which they are added: sorted shards give the same digits whoever merges them.
    sites = _merge_statistics(shards)
    identity = first["identity"] | {"shard": WHOLE}
    counts = {name: sum(_read_count(cell, name) for cell in shards) for name in ("documents", "tokens")}
    spec = first["spec"] | counts | {"shard": "1/1", "cell": key_of(identity)}
    rows, series = tables(sites, first["columns"], spec, layers=first["identity"].get("layers", "all"))
    return target.write_cell(
        identity,
        first["columns"],
        spec,
        rows,
        series,
        sites,
        keep=keep or ("sums" if any(manifest["keep"] == "sums" for manifest in manifests) else "all"),
        tried=default_metrics(),
        merged=[manifest["key"] for manifest in manifests],
        seconds=round(sum(manifest.get("seconds", 0.0) for manifest in manifests), 1),
        memory=max(manifest.get("memory", 0) for manifest in manifests),
    )


def _shard_of(cell: Cell) -> tuple[int, int]:
    i, k = cell.manifest["identity"]["shard"]
    return i, k


def _check_shards(shards: Sequence[Cell], name: str) -> None:
    """Refuse shards that are not all the shards of one division, and shards without statistics."""
    places = [_shard_of(cell) for cell in shards]
    k = places[0][1]
    if any(other != k for _, other in places):
        listed = ", ".join(f"{i + 1}/{other}" for i, other in places)
        raise IsoscopeError(f"The shards of {name} are of different divisions ({listed}); merge one.")
    absent = sorted(set(range(k)) - {i for i, _ in places})
    if absent:
        raise IsoscopeError(f"The shards {', '.join(f'{i + 1}/{k}' for i in absent)} of {name} are missing; measure them first.")
    if not all(cell.has_statistics for cell in shards):
        raise IsoscopeError(f"A shard of {name} kept only rows, which cannot be merged; measure it again with --store sums or all.")


def _merge_statistics(shards: Sequence[Cell]) -> Statistics:
    """The statistics of all shards together, site by site. A shard without items lacks sites."""
    sites = shards[0].statistics()
    for cell in shards[1:]:
        for site, statistics in cell.statistics().items():
            # Shards with one identity are of one model, unless somebody changed a run; adding up other sums would show nowhere.
            if site in sites and layout_of(sites[site]) != layout_of(statistics):
                name = cell.manifest["columns"]["model"]
                raise IsoscopeError(
                    f"The shards of {name} are not of one model: {site.label} has other widths, heads or slices in {cell.folder} "
                    f"than in {shards[0].folder}; measure one of them again."
                )
            sites[site] = merge_statistics(sites[site], statistics) if site in sites else statistics
    return dict(sorted(sites.items(), key=lambda pair: pair[0].order))


def _read_count(cell: Cell, name: str) -> int:
    """The number of documents or tokens that a cell measured."""
    count: Any = cell.manifest["spec"].get(name)
    if type(count) is not int:
        raise IsoscopeError(f"The manifest of {cell.folder} does not say how many {name} it measured; delete {cell.folder} and run again.")
    return count
