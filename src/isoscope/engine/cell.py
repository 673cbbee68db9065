"""Measure one cell: load the model, run its source through it, compute the tables and write them."""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from isoscope.core.counts import THREADS, check_count
from isoscope.core.source import Source
from isoscope.engine.announce import check_disk, give_back, human, peak_memory
from isoscope.engine.cell_identity import cell_identity
from isoscope.engine.options import Options
from isoscope.engine.progress import Progress
from isoscope.engine.rows import default_metrics, tables
from isoscope.models.reference import ModelReference
from isoscope.statistics.kept import Statistics
from isoscope.store.cell import Cell, packed
from isoscope.store.manifest import key_of
from isoscope.store.run import Run

if TYPE_CHECKING:
    import numpy as np

    Half = tuple[dict[str, int], dict[str, np.ndarray]]
    """How far a cell got, and what was found until there."""


def measure_model(
    run: Run,
    reference: ModelReference,
    source: Source,
    options: Options,
    progress: Progress,
    *,
    part: bool = False,
    identity: dict[str, Any] | None = None,
) -> None:
    """Measure one model into the run, unless it holds it already.

    A `part` is a shard that nobody reads before it is merged: it gets no tables, it may be empty, and its model stays for the next one.
    `identity`: that of the cell, if it was worked out before.
    """
    identity = identity or cell_identity(reference, source, options)
    key = key_of(identity)
    if run.cell(key, options.keep) is not None:
        progress.note(f"{reference.name}: already measured ({key}).")
        return
    with limited_threads(options.threads):
        carry_on = partial(_measure_cell, run, key, identity, reference, source, options, progress, part)
        _run_cell(run, key, reference.name, progress, carry_on)
    give_back()


@contextlib.contextmanager
def limited_threads(count: int | None) -> Iterator[None]:
    """So many threads for torch and for numpy alike; as many as they take by themselves where that is None."""
    if count is None:
        yield
        return
    check_count("threads", count, most=THREADS)
    import torch
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        with threadpool_limits(count):
            yield
    finally:
        torch.set_num_threads(before)


def _run_cell(run: Run, key: str, name: str, progress: Progress, carry_on: Callable[[Half | None], None]) -> None:
    """Measure a cell, from what is left of it where it was under way."""
    half = run.load_partial(key)
    if half is None:
        return carry_on(None)
    from isoscope.engine.single_pass import StateMisfitError

    try:
        return carry_on(half)
    except StateMisfitError as error:
        progress.note(f"{name}: the saved partial state does not match this measurement ({error}); starting over.")
    del half
    run.drop_partial(key)
    return carry_on(None)


def _measure_cell(
    run: Run,
    key: str,
    identity: dict[str, Any],
    reference: ModelReference,
    source: Source,
    options: Options,
    progress: Progress,
    part: bool,
    half: Half | None,
) -> None:
    from isoscope.engine.single_pass import Pass

    progress.note(f"{reference.name}: loading")
    one = Pass(reference, source, options, hold=part)
    if half is not None:
        one.resume(*half)
    check_disk(run.path, one.disk())
    for line in [] if progress.quiet else one.notes():
        progress.note(f"{reference.name}: {line}")
    started, first = time.monotonic(), one.stream.cursor.measured_tokens
    saved = started
    total = one.expected_items()
    with progress.bar(f"{reference.name}: measuring", total, "items") as bar:
        bar.advance(one.stream.cursor.items)
        seen = one.stream.cursor.items
        for _ in one.run():
            cursor = one.stream.cursor
            elapsed = max(time.monotonic() - started, 1e-9)
            bar.advance(cursor.items - seen, rate=f"{(cursor.measured_tokens - first) / elapsed:,.0f} {one.reader.unit}/s")
            seen = cursor.items
            if time.monotonic() - saved >= options.save_every:
                run.save_partial(key, asdict(cursor), partial(packed, one.sites))
                saved = time.monotonic()
    one.finish(empty=part)
    sites, columns, spec = one.sites, one.columns(), one.spec()
    del one
    gc.collect()  # a model and its hooks hold each other, and neither metrics nor the next model should lie beside it
    give_back()
    cell = finish_cell(run, key, identity, sites, columns, spec, options, progress, time.monotonic() - started, bare=part)
    kept = sum(file["bytes"] for file in cell.manifest["files"].values())
    progress.note(f"{reference.name}: {spec['tokens']:,} {spec['counted']}, {len(sites)} sites, {human(kept)} kept")


def finish_cell(
    run: Run,
    key: str,
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
    """Compute the tables of a cell's statistics, unless it is to have none, and write it."""
    spec = spec | {"cell": key}
    with progress.bar(f"{columns['model']}: metrics", len(sites), "sites") as bar:

        def step() -> None:
            bar.advance()
            give_back()

        rows, series = tables({} if bare else sites, columns, spec, layers=identity.get("layers", "all"), progress=step)
    cost = {"seconds": round(seconds, 1), "memory": peak_memory()}
    return run.write_cell(identity, columns, spec, rows, series, sites, keep=options.keep, replace=replace, tried=default_metrics(), **cost)
