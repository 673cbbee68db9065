"""The measurement of one cell, from top to bottom: load, find sites, reduce every batch, compute the tables, write."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np

from isoscope.core.source import Source
from isoscope.engine.announce import check_disk, give_back, human, peak_memory
from isoscope.engine.options import Options
from isoscope.engine.progress import Progress
from isoscope.engine.rows import tables, unasked
from isoscope.engine.single_pass import Pass, StateMisfitError
from isoscope.engine.threads import limit_threads
from isoscope.models.reference import ModelReference
from isoscope.statistics.kept import Statistics
from isoscope.store.cell import Cell, packed
from isoscope.store.manifest import key_of, manifest_of
from isoscope.store.run import Run

PartialState = tuple[dict[str, int], dict[str, np.ndarray]]
"""The cursor of a cell that was interrupted, and its statistics until there."""


def measure_model(
    run: Run,
    reference: ModelReference,
    source: Source,
    options: Options,
    progress: Progress,
    *,
    identity: dict[str, Any],
    part: bool = False,
) -> None:
    """Measure one model into the run, unless the run holds its cell already.

    A `part` is a shard that nobody reads before it is merged: it gets no tables, it may be empty, and its model stays for the next one.
    """
    key = key_of(identity)
    if run.cell(key, options.keep) is not None:
        progress.note(f"{reference.name}: already measured ({key}).")
        return
    with limit_threads(options.threads):
        resume = partial(_measure_cell, run, key, identity, reference, source, options, progress, part)
        _run_cell(run, key, reference.name, progress, resume)
    give_back()


def _run_cell(run: Run, key: str, name: str, progress: Progress, resume: Callable[[PartialState | None], None]) -> None:
    """Measure a cell, from its saved partial state if it has one that fits."""
    saved = run.load_partial(key)
    if saved is None:
        return resume(None)
    try:
        return resume(saved)
    except StateMisfitError as error:
        progress.note(f"{name}: the saved partial state does not match this measurement ({error}); starting over.")
    del saved
    run.drop_partial(key)
    return resume(None)


def _measure_cell(
    run: Run,
    key: str,
    identity: dict[str, Any],
    reference: ModelReference,
    source: Source,
    options: Options,
    progress: Progress,
    part: bool,
    saved: PartialState | None,
) -> None:
    progress.note(f"{reference.name}: loading")
    single_pass = Pass(reference, source, options, hold=part)
    if saved is not None:
        single_pass.resume(*saved)
    check_disk(run.path, single_pass.disk())
    for line in [] if progress.quiet else single_pass.notes():
        progress.note(f"{reference.name}: {line}")
    started, first = time.monotonic(), single_pass.stream.cursor.measured_tokens
    last_save = started
    with progress.bar(f"{reference.name}: measuring", single_pass.expected_items(), "items") as bar:
        bar.advance(single_pass.stream.cursor.items)
        shown = single_pass.stream.cursor.items
        for _ in single_pass.run():
            cursor = single_pass.stream.cursor
            elapsed = max(time.monotonic() - started, 1e-9)
            bar.advance(cursor.items - shown, rate=f"{(cursor.measured_tokens - first) / elapsed:,.0f} {single_pass.reader.unit}/s")
            shown = cursor.items
            if time.monotonic() - last_save >= options.save_every:
                run.save_partial(key, asdict(cursor), partial(packed, single_pass.sites))
                last_save = time.monotonic()
    single_pass.finish(empty=part)
    sites, columns, spec = single_pass.sites, single_pass.columns(), single_pass.spec()
    del single_pass
    gc.collect()  # a model and its hooks hold each other; the metrics must not find the model still in memory
    give_back()
    cell = finish_cell(run, identity, sites, columns, spec, options, progress, time.monotonic() - started, bare=part)
    size = sum(file["bytes"] for file in cell.manifest["files"].values())
    progress.note(f"{reference.name}: {spec['tokens']:,} {spec['counted']}, {len(sites)} sites, {human(size)} kept")


def finish_cell(
    run: Run,
    identity: dict[str, Any],
    sites: Statistics,
    columns: dict[str, Any],
    spec: dict[str, Any],
    options: Options,
    progress: Progress,
    seconds: float,
    *,
    replace: bool = False,
    bare: bool = False,
) -> Cell:
    """Compute the tables of a cell from its statistics and write it; a `bare` cell gets no tables."""
    key = key_of(identity)
    spec = spec | {"cell": key}
    with progress.bar(f"{columns['model']}: metrics", len(sites), "sites") as bar:
        rows, series = tables({} if bare else sites, columns, spec, layers=identity.get("layers", "all"), progress=bar.advance)
    cost = {"seconds": round(seconds, 1), "memory": peak_memory()}
    manifest = manifest_of(identity, columns, spec, options.keep, tried=unasked(), **cost)
    arrays = None if options.keep == "rows" else partial(packed, sites, sample=options.keep == "all")
    return run.write(key, manifest, rows, series, arrays, replace=replace)
