"""Who measures: this process, several of this machine, or a cluster. Cells do not know, and their keys do not depend on it."""

from __future__ import annotations

import os
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from isoscope.core.errors import IsoscopeError, nearest
from isoscope.engine.measure import Given
from isoscope.engine.options import Options
from isoscope.engine.progress import Progress
from isoscope.engine.task import LostError, NoMemoryError, Task, carry_out

ENGINES = ("local", "ray")
LOSSES = 3
"""Times that a cell is given to another process after the one that measured it ended."""


class Executor(Protocol):
    """Takes tasks, so many at a time as `count`, and puts each finished cell into its run."""

    @property
    def count(self) -> int:
        """How many are measured at once; of a cluster it may change."""

    def submit(self, task: Task) -> Future[list[str]]:
        """Measure a cell. The future holds what was warned of, or why there is none: `LostError`, `NoMemoryError`, another sentence."""

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...


@dataclass(frozen=True)
class Engine:
    """Who is asked to measure, as the command line has it."""

    name: str = "local"
    address: str | None = None
    processes: int | None = None
    split_into: int | None = None

    def __post_init__(self) -> None:
        if self.name not in ENGINES:
            raise IsoscopeError(f"--executor takes {' or '.join(ENGINES)}; got {self.name!r}{nearest(self.name, list(ENGINES)) or '.'}")
        if self.address is not None and self.name != "ray":
            raise IsoscopeError("--address is of a Ray cluster; add --executor ray.")
        for name in ("processes", "split_into"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise IsoscopeError(f"--{name} takes 1 or more; got {value}.")

    @property
    def far(self) -> bool:
        """Whether cells may be measured on other machines."""
        return self.name == "ray"

    def check(self, data: tuple[str, ...]) -> None:
        """Refuse what others could not read."""
        if self.far and "-" in data:
            raise IsoscopeError("Standard input is here and not on the nodes of a cluster; write it to a file, or use --executor local.")

    def open(self, count: int, options: Options, given: Given, progress: Progress) -> Executor:
        """An executor for `count` cells at a time, or for as many as a cluster has room for."""
        if self.far:
            from isoscope.engine.ray_workers import RayWorkers

            return Patient(RayWorkers(self.address, self.processes, options))
        if count > 1:
            from isoscope.engine.workers import Workers

            return Patient(Workers(count))
        return Patient(Here(given, progress))


class Here:
    """This process, one cell at a time: a task is finished when `submit` returns."""

    count = 1

    def __init__(self, given: Given, progress: Progress) -> None:
        self.given, self.progress = given, progress

    def __enter__(self) -> Here:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Nothing was started."""

    def submit(self, task: Task) -> Future[list[str]]:
        """Measure a cell now."""
        future: Future[list[str]] = Future()
        try:
            carry_out(task, self.progress, self.given)
            future.set_result([])
        except IsoscopeError as error:
            future.set_exception(error)
        return future


class Patient:
    """An executor that tries again: another process where one ended, half the batch where memory ran out, each so often and no more."""

    def __init__(self, executor: Executor) -> None:
        self.executor = executor

    @property
    def count(self) -> int:
        """As many as the executor within."""
        return self.executor.count

    def __enter__(self) -> Patient:
        self.executor.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.executor.__exit__(kind, error, trace)

    def submit(self, task: Task) -> Future[list[str]]:
        """As an executor does; what comes is the result of the last attempt."""
        outer: Future[list[str]] = Future()
        self._attempt(task, outer, losses=0, halved=False)
        return outer

    def _attempt(self, task: Task, outer: Future[list[str]], losses: int, halved: bool) -> None:
        def ended(inner: Future[list[str]]) -> None:
            error = inner.exception()
            if error is None:
                outer.set_result(inner.result())
            elif isinstance(error, NoMemoryError) and not halved and (smaller := task.smaller):
                self._again(smaller, outer, losses, halved=True)
            elif isinstance(error, LostError) and losses < LOSSES:
                self._again(task, outer, losses + 1, halved=halved)
            else:
                outer.set_exception(error)

        self.executor.submit(task).add_done_callback(ended)

    def _again(self, task: Task, outer: Future[list[str]], losses: int, *, halved: bool) -> None:
        try:
            self._attempt(task, outer, losses, halved)
        except BaseException as error:  # in a callback nobody would hear of it
            outer.set_exception(error)


def shared(options: Options, count: int) -> Options:
    """Options with each process' share of the threads."""
    return replace(options, threads=options.threads or max(1, cores() // max(1, count)))


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def oom_kills() -> int:
    """How many processes the system has ended for want of memory since it started; 0 where it does not say."""
    try:
        lines = Path("/proc/vmstat").read_text("ascii").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))
    except (OSError, StopIteration, ValueError):
        return 0
