"""Measure the checkpoints of trainings, one after the other, and say what is wrong with them."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from isoscope.core.errors import IsoscopeError, IsoscopeWarning
from isoscope.core.extras import missing_extras_as_user_errors
from isoscope.core.named import Name, named
from isoscope.engine.course import Course
from isoscope.engine.executor import Engine
from isoscope.engine.measure import Given
from isoscope.engine.options import options_from
from isoscope.engine.progress import Progress
from isoscope.engine.results import Results
from isoscope.models.suite import Suite, open_suites
from isoscope.store.run import Run

TAPS = ("hidden", "attention")
"""What a sweep taps unless told otherwise: how queries and keys move is most of what a training shows."""


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
    """Measure every checkpoint of one or more trainings and keep it in a run; what is wrong with a suite is warned of at the end.

    Args:
        suites: folders of checkpoints, patterns of paths, hub repositories or hub revisions with `{step}` (and `{seed}`), or
            `embedded`.
        data: as `isoscope.measure` takes it.
        out: the run's folder. What it already holds is neither computed nor downloaded again.
        steps: which steps, as they stand in the names: `0,20,40-200:20` or `1-512:x2`; by default all that are listed.
        seeds: which seeds, likewise.
        delete: take a checkpoint that this sweep downloaded out of the hub's cache once it is measured.
        processes: how many checkpoints are measured side by side; by default as many as cores and memory allow where there are enough
            checkpoints and no accelerator.
        executor: `local`, processes of this machine, or `ray`, a cluster.
        address: of a Ray cluster that is there already; by default one is started here.
        column: the field of a .jsonl or .parquet that holds the text.
        quiet: show no progress.
        options: as `isoscope.measure` takes them; `taps` is hidden and attention.

    Returns:
        The run, open. Its `audit.json` holds what was found wrong.
    """
    asked = Engine(executor, address, processes)
    results, faults = sweep_all(
        suites, data, out, steps=steps, seeds=seeds, delete=delete, engine=asked, column=column, quiet=quiet, **options
    )
    for fault in faults:
        warnings.warn(fault, IsoscopeWarning, stacklevel=2)
    return results


def sweep_all(suites: Name | Iterable[Name], data: Name | Iterable[Name], out: str | Path, **asked: Any) -> tuple[Results, list[str]]:
    """The run, and what is wrong with its suites, one sentence each; `asked` as `sweep` takes it, with the engine in one piece."""
    course, found = _course(suites, data, out, **asked)
    course.go(found)
    faults = course.judge(found)
    if not course.measured:
        raise IsoscopeError(f"No checkpoint could be measured: {course.problems[0]}")
    _dynamics(course.run)
    return Results(out), faults


def sweep_lines(suites: Name | Iterable[Name], data: Name | Iterable[Name], out: str | Path, **asked: Any) -> list[str]:
    """The plan of a sweep in lines: what of each suite is measured and what is left; nothing is loaded, downloaded or written."""
    course, found = _course(suites, data, out, **asked)
    return course.lines(found)


def _course(
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
) -> tuple[Course, list[Suite]]:
    """The way through the suites, and the suites."""
    chosen = options_from({"taps": TAPS} | options)
    if chosen.channels is not None:
        raise IsoscopeError("channels belongs to a torch.nn.Module; models by name bring their own.")
    found = open_suites(named(suites), steps, seeds)
    given = Given(named(data), column, [suite.name for suite in found])
    engine.check(given.specs)
    return Course(Run(out), chosen, given, delete=delete, progress=Progress(quiet=quiet), engine=engine), found


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
    """Load every checkpoint and measure none: what is wrong with the suites, one sentence each."""
    found = open_suites(named(suites), steps, seeds)
    course = Course(Run(out), options_from(options), None, delete=delete, progress=Progress(quiet=quiet))
    course.go(found)
    return course.judge(found)


def _dynamics(run: Run) -> None:
    """What the checkpoints say together, where a training was measured at two steps or more."""
    from isoscope.engine.dynamics import dynamics, suites

    if suites(run):
        dynamics(run.path)
