"""Measure models: plan cells, run those that are not finished, write each as it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isoscope.core.errors import IsoscopeError, missing_extras_as_user_errors
from isoscope.core.progress import Progress
from isoscope.core.user_input import Name, list_names
from isoscope.measuring.executor import Engine
from isoscope.measuring.measurement import Measurement, UnfinishedError
from isoscope.measuring.options import OF_A_MODULE, options_from
from isoscope.runs.results import Results
from isoscope.runs.run import Run

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
        data: `embedded`, files, folders or globs of text, clips or images, `-`, or `hf:…`. If there are several, each model reads the
            first one of its modality; `NAME=SOURCE` is for the model of that name alone.
            For a module: batches, each a tensor, a tuple of arguments or a dict of them. Every row is an item; an `attention_mask`
            excludes padding.
        out: the run's folder. Cells that it already holds are not computed again.
        column: the field of a .jsonl or .parquet that holds the text.
        quiet: show no progress.
        executor: `local` for processes of this machine, or `ray` for a cluster.
        address: address of an existing Ray cluster; by default a local one is started.
        processes: how many cells to measure in parallel; by default as many as cores and memory allow, if there are enough cells.
        split_into: split each source into this many shards, measure them in parallel and merge them; a single model with several
            `processes` is split into that many.
        feed: for a module, `feed(module, batch)` runs a batch; by default the module is called with it.
        blocks: for a module, the paths of its blocks, as in `layers.*`; by default the largest repeated structure.
        name: for a module, its name in the table; by default its class.
        channels: for a module, whether the channels of its maps come `first` or `last`; by default this is taken from the layers that
            read and make a map.
        options: those of the command line, with underscores: `max_tokens`, `seq_len`, `layers`, `shard`, …

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
        from isoscope.measuring.module_cell import measure_module

        for option in [*options, *(["column"] if column else []), *(word for word, value in elsewhere.items() if value is not None)]:
            if option not in OF_A_MODULE:
                raise IsoscopeError(f"The option {option!r} does not apply to a module: batches are measured as they come, all of them.")

        measure_module(models, data, Run(out), chosen, Progress(quiet=quiet), feed=feed, blocks=blocks, name=name)
        return Results(out)
    if feed is not None or blocks is not None or name is not None or chosen.channels is not None:
        raise IsoscopeError("feed, blocks, channels and name belong to a torch.nn.Module; models by name bring their own.")
    names = list_names(models)
    if not names:
        raise IsoscopeError("Name at least one model: a folder, a .gguf file or a hub id.")
    measurement = Measurement(names, data, out, chosen, Engine(executor, address, processes, split_into), column)
    measurement.run.prepare()
    reasons = measurement.measure(Progress(quiet=quiet))
    if reasons:
        # If every model failed for one reason, such as a device that is not there, that reason is the whole message.
        alike = len(reasons) == len(measurement.models) and len({str(reason) for reason in reasons.values()}) == 1
        raise next(iter(reasons.values())) if alike else UnfinishedError(reasons, len(measurement.models))
    return Results(out)


def describe_measurement(
    models: list[str],
    data: Name | Iterable[Name] = "embedded",
    out: str | Path = "isoscope-run",
    *,
    column: str | None = None,
    executor: str = "local",
    address: str | None = None,
    processes: int | None = None,
    split_into: int | None = None,
    quiet: bool = True,
    **options: Any,
) -> list[str]:
    """The plan of a measurement in lines; the arguments are those of `measure`. Nothing is loaded or written."""
    return Measurement(models, data, out, options_from(options), Engine(executor, address, processes, split_into), column).describe()
