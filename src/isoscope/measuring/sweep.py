"""Measure the checkpoints of trainings and report their faults."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from isoscope.core.errors import IsoscopeError, IsoscopeWarning, missing_extras_as_user_errors
from isoscope.core.progress import Progress
from isoscope.core.study import studies
from isoscope.core.user_input import Name, list_names
from isoscope.measuring.checkpoint_jobs import Sweep
from isoscope.measuring.executor import Engine
from isoscope.measuring.named_sources import Sources
from isoscope.measuring.options import options_from
from isoscope.models.naming.suite import open_suites
from isoscope.runs.results import Results
from isoscope.runs.run import Run

TAPS = ("hidden", "attention")
"""The default taps of a sweep: most of what a training shows is how queries and keys move."""


@missing_extras_as_user_errors("Measuring checkpoints")
def sweep(
    suites: Name | Iterable[Name],
    data: Name | Iterable[Name] = "embedded",
    out: str | Path = "isoscope-run",
    *,
    steps: str | None = None,
    seeds: str | None = None,
    delete: bool = False,
    processes: int | None = None,
    executor: str = "local",
    address: str | None = None,
    column: str | None = None,
    quiet: bool = False,
    **options: Any,
) -> Results:
    """Measure every checkpoint of one or more trainings and keep it in a run. At the end, faults of the suites become warnings.

    Args:
        suites: folders of checkpoints, patterns of paths, hub repositories or hub revisions with `{step}` (and `{seed}`), or
            `embedded`.
        data: as for `isoscope.measure`.
        out: the run's folder. Checkpoints that it already holds are neither computed nor downloaded again.
        steps: which steps, as they stand in the names: `0,20,40-200:20` or `1-512:x2`; by default all that are listed.
        seeds: which seeds, in the same form.
        delete: remove each checkpoint that this sweep downloaded from the hub's cache once it is measured.
        processes: how many checkpoints to measure in parallel; by default as many as cores and memory allow, if there are enough
            checkpoints and no accelerator.
        executor: `local` for processes of this machine, or `ray` for a cluster.
        address: address of an existing Ray cluster; by default a local one is started.
        column: the field of a .jsonl or .parquet that holds the text.
        quiet: show no progress.
        options: as for `isoscope.measure`, except that `taps` is hidden and attention.

    Returns:
        The run, open. Its `audit.json` holds the faults.
    """
    asked = Engine(executor, address, processes)
    results, faults = sweep_with_faults(
        suites, data, out, steps=steps, seeds=seeds, delete=delete, engine=asked, column=column, quiet=quiet, **options
    )
    for fault in faults:
        warnings.warn(fault, IsoscopeWarning, stacklevel=2)
    return results


def sweep_with_faults(
    suites: Name | Iterable[Name], data: Name | Iterable[Name], out: str | Path, **asked: Any
) -> tuple[Results, list[str]]:
    """Sweep, and return the run and the faults of its suites, one sentence each; `asked` are options of `sweep`, and an `Engine`."""
    planned = _plan_sweep(suites, data, out, **asked)
    planned.measure()
    faults = planned.find_faults()
    if not planned.measured:
        raise IsoscopeError(f"No checkpoint could be measured: {planned.problems[0]}")
    for study in studies:
        if study.derive is not None:
            study.derive(planned.run.path)
    return Results(out), faults


def describe_sweep(suites: Name | Iterable[Name], data: Name | Iterable[Name], out: str | Path, **asked: Any) -> list[str]:
    """The plan of a sweep in lines: which checkpoints are measured and which are left. Nothing is loaded, downloaded or written."""
    return _plan_sweep(suites, data, out, **asked).describe()


def _plan_sweep(
    suites: Name | Iterable[Name],
    data: Name | Iterable[Name],
    out: str | Path,
    *,
    steps: str | None,
    seeds: str | None,
    delete: bool,
    engine: Engine,
    column: str | None,
    quiet: bool,
    **options: Any,
) -> Sweep:
    chosen = options_from({"taps": TAPS} | options)
    if chosen.channels is not None:
        raise IsoscopeError("channels belongs to a torch.nn.Module; models by name bring their own.")
    opened = open_suites(list_names(suites), steps, seeds)
    sources = Sources(list_names(data), column, [suite.name for suite in opened])
    engine.check_data(sources.specs)
    return Sweep(opened, Run(out), chosen, sources, delete=delete, progress=Progress(quiet=quiet), engine=engine)


def audit(
    suites: Name | Iterable[Name],
    out: str | Path = "isoscope-run",
    *,
    steps: str | None = None,
    seeds: str | None = None,
    delete: bool = False,
    quiet: bool = False,
    **options: Any,
) -> list[str]:
    """Load every checkpoint and measure none; return the faults of the suites, one sentence each."""
    opened = open_suites(list_names(suites), steps, seeds)
    planned = Sweep(opened, Run(out), options_from(options), None, delete=delete, progress=Progress(quiet=quiet))
    planned.measure()
    return planned.find_faults()
