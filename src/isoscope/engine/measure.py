"""Measure models: plan cells, run those that are not finished, write each as it ends."""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isoscope.core.counts import THREADS, check_count
from isoscope.core.errors import IsoscopeError
from isoscope.core.extras import missing_extras_as_user_errors
from isoscope.core.group import UNTRAINED
from isoscope.core.named import Name, named
from isoscope.core.source import Source
from isoscope.engine.announce import check_disk, give_back, human, peak_memory
from isoscope.engine.options import OF_A_MODULE, Options, options_from
from isoscope.engine.progress import Progress
from isoscope.engine.results import Results
from isoscope.engine.rows import tables, unasked
from isoscope.models.reference import ModelReference
from isoscope.sources import open_source
from isoscope.statistics.kept import Statistics
from isoscope.store.cell import Cell, packed
from isoscope.store.manifest import key_of, manifest_of
from isoscope.store.run import Run

if TYPE_CHECKING:
    import numpy as np
    from torch.nn import Module

    Half = tuple[dict[str, int], dict[str, np.ndarray]]
    """How far a cell got, and what was found until there."""


@missing_extras_as_user_errors("Measuring a model")
def measure(
    models: Name | Iterable[Name] | Module,
    data: Name | Iterable[Any] = "embedded",
    out: str | Path = "isoscope-run",
    *,
    column: str | None = None,
    quiet: bool = False,
    executor: str = "local",
    address: str | None = None,
    processes: int | None = None,
    split_into: int | None = None,
    feed: Callable[[Any, Any], object] | None = None,
    blocks: str | None = None,
    name: str | None = None,
    **options: Any,
) -> Results:
    """Measure the geometry of every layer of one or more models and keep it in a run.

    Args:
        models: a folder, a .gguf file or a hub id (`org/name@revision`); `untrained:` before it means the same architecture
            at initialisation. Or a `torch.nn.Module`, with batches as `data`.
        data: `embedded`, files, folders or globs of text, clips or images, `-`, or `hf:…`. Of several each model reads the first
            that is of its modality; `NAME=SOURCE` is for the model of that name alone.
            Of a module: batches, each a tensor, a tuple of arguments or a dict of them; every row is an item, and where there is
            an `attention_mask` padding does not count.
        out: the run's folder. What it already holds is not computed again.
        column: the field of a .jsonl or .parquet that holds the text.
        quiet: show no progress.
        executor: `local`, processes of this machine, or `ray`, a cluster.
        address: of a Ray cluster that is there already; by default one is started here.
        processes: how many cells are measured side by side; by default as many as cores and memory allow where there are enough.
        split_into: divide each source into so many, measure them side by side and merge them; a single model with several `processes` is
            divided into as many.
        feed: of a module, `feed(module, batch)` runs a batch; by default the module is called with it.
        blocks: of a module, the paths of its blocks, as in `layers.*`; by default the largest repeated structure.
        name: of a module, what the table calls it; by default its class.
        channels: of a module, how the channels of its maps lie, `first` or `last`; by default the layers that read and make a map tell.
        options: as the command line has them, with underscores: `max_tokens`, `seq_len`, `layers`, `shard`, …

    Returns:
        The run, open: `.table()` and `.series()`.
    """
    chosen = options_from(options)
    elsewhere = {
        "address": address,
        "processes": processes,
        "split_into": split_into,
        "executor": None if executor == "local" else executor,
    }
    if not isinstance(models, str) and hasattr(models, "named_modules"):
        from isoscope.engine.module_pass import measure_module

        for option in [*options, *(["column"] if column else []), *(word for word, value in elsewhere.items() if value is not None)]:
            if option not in OF_A_MODULE:
                raise IsoscopeError(f"The option {option!r} does not apply to a module: batches are measured as they come, all of them.")

        return measure_module(models, data, Run(out), chosen, Progress(quiet=quiet), feed=feed, blocks=blocks, name=name)
    if feed is not None or blocks is not None or name is not None or chosen.channels is not None:
        raise IsoscopeError("feed, blocks, channels and name belong to a torch.nn.Module; models by name bring their own.")
    names = named(models)
    if not names:
        raise IsoscopeError("Name at least one model: a folder, a .gguf file or a hub id.")
    from isoscope.engine.spread import UnfinishedError, open_spread

    spread, planned, count = open_spread(names, data, out, chosen, column, Progress(quiet=quiet), executor, address, processes, split_into)
    spread.run.prepare()
    failures = spread.go(planned, count)
    if failures:
        alike = len(failures) == len(planned) and len({str(one.reason) for one in failures}) == 1
        raise failures[0].reason if alike else UnfinishedError(failures, len(planned))
    return Results(out)


def measure_model(run: Run, reference: ModelReference, source: Source, options: Options, progress: Progress, *, part: bool = False) -> None:
    """Measure one model into the run, unless it holds it already.

    A `part` is a shard that nobody reads before it is merged: it gets no tables, it may be empty, and its model stays for the next one.
    """
    identity = cell_identity(reference, source, options)
    key = key_of(identity)
    if run.cell(key, options.store) is not None:
        progress.note(f"{reference.name}: already measured ({key}).")
        return
    with limited_threads(options.threads):
        carry_on = partial(_measure_cell, run, key, identity, reference, source, options, progress, part)
        _run_cell(run, key, reference.name, progress, carry_on)
    give_back()


class Given:
    """The sources that were named, each opened once, and which of them a model reads."""

    def __init__(self, specs: list[str], column: str | None, models: list[str]) -> None:
        self.specs, self.column, self.models = tuple(specs), column, tuple(models)
        named = [(name, rest) for name, equals, rest in (spec.partition("=") for spec in specs) if equals and name in models]
        self.named = dict(named)
        shared = [spec for spec in specs if spec.partition("=")[0] not in self.named] or ["embedded"]
        self.shared = sorted(shared, key=lambda spec: spec == "embedded")  # what comes with isoscope is of every modality: last
        self._opened: dict[tuple[str, str], Source] = {}
        self._modalities: dict[tuple[bytes, bool | tuple[str, ...]] | None, str] = {}

    def for_model(self, reference: ModelReference, options: Options) -> Source:
        """The source of a model: the one named for it, or the first of its modality."""
        from isoscope.models.load import family_for

        config = reference.folder / "config.json"
        alike = None if reference.gguf or reference.whisper or not config.is_file() else (config.read_bytes(), options.trust_remote_code)
        modality = self._modalities.get(alike) or family_for(reference, trust_remote_code=options.trust_remote_code).source
        if alike is not None:  # checkpoints of one training have one configuration
            self._modalities[alike] = modality
        return self.of_modality(reference.name, modality)

    def of_modality(self, model: str, modality: str) -> Source:
        """The source of a model of this name, which reads this modality."""
        mine = [self.named[name]] if (name := model.removeprefix(UNTRAINED)) in self.named else self.shared
        problem: IsoscopeError | None = None
        for spec in mine:
            try:
                source = self._open(spec, modality)
            except IsoscopeError as error:
                problem = problem or error
                continue
            if source.modality == modality:
                return source
        if problem is not None:
            raise problem
        raise IsoscopeError(
            f"{model} reads {modality}, and {', '.join(mine)} {'holds' if len(mine) == 1 else 'hold'} none; add --data with "
            f"{modality}, or --data embedded."
        )

    def _open(self, spec: str, modality: str) -> Source:
        if (spec, modality) not in self._opened:
            self._opened[spec, modality] = open_source(spec, self.column, modality)
        return self._opened[spec, modality]


def cell_identity(reference: ModelReference, source: Source, options: Options) -> dict[str, Any]:
    """Everything that determines the cell's statistics, and nothing else."""
    i, k = options.shard
    identity = {"weights": reference.weights, "source": source.fingerprint, "shard": [i, k], **options.identity()}
    if reference.step is None:
        return identity
    # Equal weights at two steps are two checkpoints of the table, and a fault that it must show.
    return identity | {"checkpoint": {"suite": reference.name, "step": reference.step, "seed": reference.seed}}


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
    manifest = manifest_of(identity, columns, spec, options.store, tried=unasked(), **cost)
    arrays = None if options.store == "rows" else partial(packed, sites, sample=options.store == "all")
    return run.write(key, manifest, rows, series, arrays, replace=replace)
