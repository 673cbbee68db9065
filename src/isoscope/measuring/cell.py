"""The measurement of one cell, from top to bottom: load, find sites, reduce every batch, compute the tables, write."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from isoscope.core.machine import forget_peak, peak_memory
from isoscope.core.progress import Progress
from isoscope.core.source import Source
from isoscope.core.wording import format_bytes
from isoscope.measuring.options import Options
from isoscope.models.naming.model_name import ModelReference
from isoscope.runs.rows import default_metrics, tables
from isoscope.runs.run import Run
from isoscope.runs.stored_cell import Cell, key_of
from isoscope.runs.tensors import pack_statistics
from isoscope.statistics.any_statistics import Statistics
from isoscope.training.threads import limit_threads

if TYPE_CHECKING:
    from isoscope.measuring.single_pass import Pass

Identity = dict[str, Any]


@dataclass
class Reduced:
    """A source reduced to statistics, with the table's columns about the model and the settings."""

    statistics: Statistics
    columns: dict[str, Any]
    spec: dict[str, Any]
    seconds: float


def measure_model(
    run: Run, reference: ModelReference, source: Source, options: Options, progress: Progress, *, identity: Identity, part: bool = False
) -> None:
    """Measure one model into the run, unless the run holds its cell already; `identity` determines the cell.

    A `part` is a shard that nobody reads before it is merged: it gets no tables, and its model stays for the next one.
    """
    # The key is a hash of everything that determines the numbers, so a cell with this key is this measurement, whoever made it.
    key = key_of(identity)
    if run.cell(key, options.store) is not None:
        progress.note(f"{reference.name}: already measured ({key}).")
        return
    forget_peak()
    with limit_threads(options.threads):
        reduced = _reduce_source(run, key, reference, source, options, progress, part)
        if not part:
            gc.collect()  # a model and its hooks refer to each other; the model must be out of memory before the metrics are computed
        cell = finish_cell(run, identity, reduced, options, progress, with_tables=not part and reduced.spec["tokens"] > 0)
    counted, size = f"{reduced.spec['tokens']:,} {reduced.spec['counted']}", sum(file["bytes"] for file in cell.manifest["files"].values())
    progress.note(f"{reference.name}: {counted}, {len(reduced.statistics)} sites, {format_bytes(size)} kept")


def _reduce_source(
    run: Run, key: str, reference: ModelReference, source: Source, options: Options, progress: Progress, part: bool
) -> Reduced:
    from isoscope.measuring.model_feeder import ModelFeeder  # here, so that planning does not wait for torch
    from isoscope.measuring.single_pass import Pass, StateMisfitError

    progress.note(f"{reference.name}: loading")
    feeder = ModelFeeder(reference, source, options, hold=part)
    single_pass = Pass(feeder, options)
    single_pass.learn(feeder.probe())
    for line in (feeder.announce_size(single_pass, run.path), *feeder.notes()):
        progress.note(f"{reference.name}: {line}")
    if (saved := run.load_partial(key)) is not None:
        try:
            single_pass.resume(*saved)
        except StateMisfitError as error:
            progress.note(f"{reference.name}: the saved partial state does not match this measurement ({error}); starting over.")
            run.drop_partial(key)
    del saved
    started, pack = time.monotonic(), lambda: pack_statistics(single_pass.collect())
    reduce_batches(single_pass, progress, lambda: run.save_partial(key, feeder.cursor(), pack), options.save_every)
    return Reduced(single_pass.finish(), feeder.columns(), feeder.spec() | single_pass.marks(), time.monotonic() - started)


def reduce_batches(
    single_pass: Pass, progress: Progress, save: Callable[[], None] = lambda: None, save_every: float = float("inf")
) -> None:
    """Run every batch and reduce its states; between two windows, save the statistics if it is time to."""
    feeder = single_pass.feeder
    started = last_save = time.monotonic()
    shown, counted_before = feeder.progress()
    with progress.bar(f"{feeder.name}: measuring", feeder.total(), feeder.unit) as bar:
        bar.advance(shown)
        for window in feeder.windows():
            for batch in window:
                single_pass.reduce(batch)
            done, counted = feeder.progress()
            rate = (counted - counted_before) / max(time.monotonic() - started, 1e-9)
            bar.advance(done - shown, rate=f"{rate:,.0f} {feeder.counted_unit}/s")
            shown = done
            # Only here: within a window the sequences of an item lie in several batches, and a resumed cell starts at a whole item.
            if time.monotonic() - last_save >= save_every:
                save()
                last_save = time.monotonic()


def finish_cell(
    run: Run, identity: Identity, reduced: Reduced, options: Options, progress: Progress, *, replace: bool = False, with_tables: bool = True
) -> Cell:
    """Compute the tables of a cell from its statistics, and write it."""
    statistics, columns, spec = reduced.statistics, reduced.columns, reduced.spec | {"cell": key_of(identity)}
    with progress.bar(f"{columns['model']}: metrics", len(statistics), "sites") as bar:
        layers = identity.get("layers", "all")
        rows, series = tables(statistics if with_tables else {}, columns, spec, layers=layers, progress=bar.advance)
    cost = {"seconds": round(reduced.seconds, 1), "memory": peak_memory()}
    return run.write_cell(
        identity, columns, spec, rows, series, statistics, keep=options.store, replace=replace, tried=default_metrics(), **cost
    )
