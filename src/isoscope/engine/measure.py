"""Measure models: plan cells, run those that are not finished, write each as it ends."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from isoscope.core.errors import IsoscopeError
from isoscope.core.source import Source
from isoscope.core.version import __version__
from isoscope.engine.announce import check_disk, give_back, human
from isoscope.engine.options import Options, options_from
from isoscope.engine.progress import Progress
from isoscope.engine.results import Results
from isoscope.engine.rows import tables
from isoscope.models.reference import ModelReference, resolve
from isoscope.sources import open_source
from isoscope.store.cell import key_of, pack
from isoscope.store.run import Run


def measure(
    models: str | Iterable[str],
    data: str = "embedded",
    out: str | Path = "isoscope-run",
    *,
    column: str | None = None,
    quiet: bool = False,
    **options: Any,
) -> Results:
    """Measure the geometry of every layer of one or more models and keep it in a run.

    Args:
        models: a folder, a .gguf file or a hub id (`org/name@revision`); `untrained:` before it means the same architecture
            at initialisation.
        data: `embedded`, a file or glob of .txt, .jsonl or .parquet, `-`, or `hf:…`.
        out: the run's folder. What it already holds is not computed again.
        column: the field of a .jsonl or .parquet that holds the text.
        quiet: show no progress.
        options: as the command line has them, with underscores: `max_tokens`, `seq_len`, `layers`, `shard`, …

    Returns:
        The run, open: `.table()` and `.series()`.
    """
    chosen = options_from(options)
    names = [models] if isinstance(models, str) else list(models)
    if not names:
        raise IsoscopeError("Name at least one model: a folder, a .gguf file or a hub id.")
    progress, run = Progress(quiet=quiet), Run(out)
    source = open_source(data, column)
    # Every name is looked up before the first model runs, so that a misspelt last one costs nothing.
    references = [resolve(name, seed=chosen.seed) for name in names]
    run.prepare()
    for reference in references:
        identity = cell_identity(reference, source, chosen)
        key = key_of(identity)
        if run.cell(key, chosen.keep) is not None:
            progress.note(f"{reference.name}: already measured ({key}).")
            continue
        with _threads(chosen.threads):
            _run_cell(run, key, identity, reference, source, chosen, progress)
    return Results(run.path)


def cell_identity(reference: ModelReference, source: Source, options: Options) -> dict[str, Any]:
    """Everything that determines the cell's statistics, and nothing else."""
    i, k = options.shard
    return {"weights": reference.weights, "source": source.fingerprint, "shard": [i, k], **options.identity()}


@contextlib.contextmanager
def _threads(count: int | None) -> Iterator[None]:
    """So many threads for torch and for numpy alike."""
    if count is None:
        yield
        return
    import torch
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        with threadpool_limits(count):
            yield
    finally:
        torch.set_num_threads(before)


def _run_cell(
    run: Run, key: str, identity: dict[str, Any], reference: ModelReference, source: Source, options: Options, progress: Progress
) -> None:
    from isoscope.engine.single_pass import Pass

    progress.note(f"{reference.name}: loading")
    one = Pass(reference, source, options)
    resumed = run.load_partial(key)
    if resumed is not None:
        one.resume(*resumed)
    check_disk(run.path, one.disk())
    for line in one.notes():
        progress.note(f"{reference.name}: {line}")
    started, first = time.monotonic(), one.stream.cursor.measured_tokens
    saved = started
    total = one.expected_items()
    with progress.bar(f"{reference.name}: measuring", total, "documents") as bar:
        bar.advance(one.stream.cursor.items)
        seen = one.stream.cursor.items
        for _ in one.run():
            cursor = one.stream.cursor
            elapsed = max(time.monotonic() - started, 1e-9)
            bar.advance(cursor.items - seen, rate=f"{(cursor.measured_tokens - first) / elapsed:,.0f} tokens/s")
            seen = cursor.items
            if time.monotonic() - saved >= options.save_every:
                run.save_partial(key, asdict(cursor), pack(one.sites))
                saved = time.monotonic()
    one.finish()
    columns, spec = one.columns(), one.spec() | {"cell": key}
    with progress.bar(f"{reference.name}: metrics", len(one.sites), "sites") as bar:

        def step() -> None:
            bar.advance()
            give_back()

        rows, series = tables(one.sites, columns, spec, progress=step)
    manifest = {
        "isoscope": __version__,
        "created": datetime.now(UTC).isoformat(timespec="microseconds"),
        "identity": identity,
        "columns": columns,
        "spec": spec,
        "keep": options.keep,
        "seconds": round(time.monotonic() - started, 1),
    }
    arrays = None if options.keep == "rows" else pack(one.sites, sample=options.keep == "all")
    run.write(key, manifest, rows, series, arrays)
    tokens = one.stream.cursor.measured_tokens
    progress.note(
        f"{reference.name}: {tokens:,} tokens, {len(one.sites)} sites, {human(sum(a.nbytes for a in (arrays or {}).values()))} kept"
    )
