"""Measure models: plan cells, run those that are not finished, write each as it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isoscope.core.errors import IsoscopeError
from isoscope.core.extras import missing_extras_as_user_errors
from isoscope.core.named import Name, named
from isoscope.engine.options import OF_A_MODULE, options_from
from isoscope.engine.progress import Progress
from isoscope.engine.results import Results
from isoscope.engine.spread import UnfinishedError, open_spread
from isoscope.store.run import Run

if TYPE_CHECKING:
    from torch.nn import Module


@missing_extras_as_user_errors("Measuring a model")
def measure(
    models: Name | Iterable[Name] | Module,
    data: Name | Iterable[Any] = "embedded",
    out: str | Path = "isoscope-run",
    *,
    column: str | None = None,
    quiet: bool = False,
    engine: str = "local",
    address: str | None = None,
    processes: int | None = None,
    shards: int | None = None,
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
        engine: `local`, processes of this machine, or `ray`, a cluster.
        address: of a Ray cluster that is there already; by default one is started here.
        processes: how many cells are measured side by side; by default as many as cores and memory allow where there are enough.
        shards: divide each source into so many, measure them side by side and merge them; a single model with several `processes` is
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
    elsewhere = {"address": address, "processes": processes, "shards": shards, "engine": None if engine == "local" else engine}
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
    spread, planned, count = open_spread(names, data, out, chosen, column, Progress(quiet=quiet), engine, address, processes, shards)
    spread.run.prepare()
    failures = spread.go(planned, count)
    if failures:
        alike = len(failures) == len(planned) and len({str(one.reason) for one in failures}) == 1
        raise failures[0].reason if alike else UnfinishedError(failures, len(planned))
    return Results(out)
