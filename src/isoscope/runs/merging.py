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
from isoscope.sources._file_parts import combine_blocks
from isoscope.statistics.any_statistics import Statistics, layout_of, merge_statistics

WHOLE = [0, 1]
"""The shard of a cell that is measured in one piece: the first of one."""
APART = {"shard": None, "shards": None, "block_hashes": None}
"""The parts of an identity in which the shards of one cell differ."""
MOST_LISTED = 8


def merge(runs: list[str | Path], out: str | Path, *, partial: bool = False) -> Results:
    """Merge the shards of runs into the cells of one pass; cells of different models or data stay separate.

    All shards of a cell must be there. If two runs hold the same shard, it counts once. With `partial` shards may be missing: what there
    is becomes one cell without tables, which is merged with the others later. So a thousand shards can be merged as a tree.
    """
    cells: dict[str, Cell] = {}
    for run in runs:
        for cell in Run.existing(run).cells():
            cells.setdefault(cell.manifest["key"], cell)
    shards_by_key: dict[str, list[Cell]] = {}
    for cell in cells.values():
        shards_by_key.setdefault(key_of(cell.manifest["identity"] | APART), []).append(cell)
    target = Run(out)
    for shards in shards_by_key.values():
        first = shards[0]
        is_whole = "shard" not in first.manifest["identity"] or (len(shards) == 1 and first.manifest["identity"]["shard"] == WHOLE)
        if first.is_experiment or is_whole:
            target.copy_cell(first)
        else:
            merge_shards(target, shards, partial=partial)
    return Results(out)


def merge_shards(target: Run, cells: Sequence[Cell], *, keep: str | None = None, partial: bool = False) -> Cell:
    """Merge shards of one cell, some of which may be merged already, and write the cell; it keeps as much as they did, or `keep`.

    It is the cell of one pass if all shards are there, and otherwise, with `partial`, a cell of several shards. Shards that hold nothing
    together are refused, as one pass refuses a source that gives nothing.
    """
    cells = _choose_shards(cells)
    manifests = [cell.manifest for cell in cells]
    first = manifests[0]
    _check_shards(cells, partial=partial)
    identity = merge_identities([manifest["identity"] for manifest in manifests])
    if (there := target.cell(key_of(identity), keep or "rows")) is not None:
        return there
    counts = {name: sum(_read_count(cell, name) for cell in cells) for name in ("documents", "tokens")}
    is_whole = identity["shard"] == WHOLE
    if is_whole and not counts["tokens"]:
        spec = first["spec"]
        raise IsoscopeError(f"{spec.get('data', 'The source')} gives {first['columns']['model']} no {spec.get('counted', 'tokens')}.")
    target.prepare()
    # Sums of floats depend on the order in which they are added: sorted shards give the same digits whoever merges them.
    sites = _merge_statistics(cells)
    place = "1/1" if is_whole else f"{len(identity['shards'])} of {identity['shard'][1]}"
    data = {"fingerprint": identity["source"]} if is_whole and "source" in identity else {}
    spec = first["spec"] | counts | data | {"shard": place, "cell": key_of(identity)}
    rows, series = tables(sites if is_whole else {}, first["columns"], spec, layers=first["identity"].get("layers", "all"))
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


def merge_identities(identities: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The identity of the cell of these shards together: that of one pass if there are all of them."""
    shards = sorted(i for identity in identities for i in shards_in(identity))
    k = identities[0]["shard"][1]
    common = {name: value for name, value in identities[0].items() if name not in APART}
    blocks = {number: digest for identity in identities for number, digest in identity.get("block_hashes", {}).items()}
    if len(shards) == k:
        return common | {"shard": WHOLE} | ({"source": combine_blocks(common["source"], blocks)} if "block_hashes" in identities[0] else {})
    some = {"shard": [shards[0], k]} | ({"shards": shards} if len(shards) > 1 else {})
    return common | some | ({"block_hashes": blocks} if "block_hashes" in identities[0] else {})


def shards_in(identity: dict[str, Any]) -> list[int]:
    """The numbers of the shards that a cell holds: its own, or those that were merged into it."""
    return list(identity.get("shards", identity["shard"][:1]))


def _choose_shards(cells: Sequence[Cell]) -> list[Cell]:
    """The cells in the order of their shards, without those whose shards a larger one holds."""
    chosen: list[Cell] = []
    seen: set[int] = set()
    for cell in sorted(cells, key=lambda cell: -len(shards_in(cell.manifest["identity"]))):
        shards = set(shards_in(cell.manifest["identity"]))
        if not shards <= seen:
            chosen.append(cell)
            if twice := sorted(shards & seen):
                name, k = cell.manifest["columns"]["model"], cell.manifest["identity"]["shard"][1]
                raise IsoscopeError(f"Shard {twice[0] + 1}/{k} of {name} is in two merged cells, one of them {cell.folder}; leave one out.")
            seen |= shards
    return sorted(chosen, key=lambda cell: _shard_of(cell))


def _shard_of(cell: Cell) -> tuple[int, int]:
    i, k = cell.manifest["identity"]["shard"]
    return i, k


def _check_shards(cells: Sequence[Cell], *, partial: bool) -> None:
    """Refuse shards that are not all the shards of one division of the same bytes, and shards without statistics."""
    name = str(cells[0].manifest["columns"]["model"])
    places = [_shard_of(cell) for cell in cells]
    k = places[0][1]
    if any(other != k for _, other in places):
        listed = ", ".join(f"{i + 1}/{other}" for i, other in places)
        raise IsoscopeError(f"The shards of {name} are of different divisions ({listed}); merge one.")
    identities = [cell.manifest["identity"] for cell in cells]
    absent = sorted(set(range(k)).difference(*map(shards_in, identities)))
    if absent and not partial:
        listed = ", ".join(f"{i + 1}/{k}" for i in absent[:MOST_LISTED]) + (", …" if len(absent) > MOST_LISTED else "")
        raise IsoscopeError(
            f"The shards {listed} of {name} are missing; measure them first, or merge what there is with --partial and the rest later."
        )
    if not all(cell.has_statistics for cell in cells):
        raise IsoscopeError(f"A shard of {name} kept only rows, which cannot be merged; measure it again with --store sums or all.")
    digests: dict[str, str] = {}
    for cell, identity in zip(cells, identities, strict=True):
        for number, digest in identity.get("block_hashes", {}).items():
            if digests.setdefault(number, digest) != digest:
                raise IsoscopeError(
                    f"The data of {name} changed between the shards: {cell.folder} read other bytes than its neighbour; measure again."
                )


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
