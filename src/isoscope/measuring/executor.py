"""Executors measure cells: in this process, in several processes of this machine, or on a cluster.

A cell does not depend on the executor that measured it, and neither does its key.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from isoscope.core.errors import IsoscopeError, nearest
from isoscope.core.progress import Progress
from isoscope.measuring.options import Options
from isoscope.measuring.ray_workers import RayWorkers
from isoscope.measuring.task import LostError, NoMemoryError, Task, run_task
from isoscope.measuring.workers import Workers, choose_process_count

ENGINES = ("local", "ray")
MAX_LOSSES = 3
"""How often a cell is given to another process after the one that measured it ended."""


class Executor(Protocol):
    """Takes tasks, `count` at a time, and writes each finished cell into its run."""

    @property
    def count(self) -> int:
        """How many cells are measured at once. A cluster may change it at any time."""

    def submit(self, task: Task) -> Future[list[str]]:
        """Measure a cell. The future holds the texts of warnings, or the error: `LostError`, `NoMemoryError` or another one."""

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...


@dataclass(frozen=True)
class Engine:
    """The executor that the user asks for, in the words of the command line."""

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
                raise IsoscopeError(f"--{name.replace('_', '-')} takes 1 or more; got {value}.")

    @property
    def is_remote(self) -> bool:
        """Whether cells may be measured on other machines."""
        return self.name == "ray"

    def check_data(self, data: tuple[str, ...]) -> None:
        """Refuse data that other machines could not read."""
        if self.is_remote and "-" in data:
            raise IsoscopeError("Standard input is here and not on the nodes of a cluster; write it to a file, or use --executor local.")

    def choose_count(self, cells: int, weights: int, options: Options, data: tuple[str, ...], *, processes: int | None = None) -> int:
        """How many cells to measure at once in processes of this machine, with models of so many bytes; 1 on a cluster, which decides
        for itself."""
        return 1 if self.is_remote else choose_process_count(processes or self.processes, cells, weights, options, data)

    def open(self, count: int, options: Options, progress: Progress) -> Executor:
        """An executor for `count` cells at a time, or for as many as a cluster has room for."""
        if self.is_remote:
            return Retrying(RayWorkers(self.address, self.processes, options))
        return Retrying(Workers(count) if count > 1 else InProcess(progress))


class InProcess:
    """Measures one cell at a time in this process: a task is finished when `submit` returns."""

    count = 1

    def __init__(self, progress: Progress) -> None:
        self.progress = progress

    def __enter__(self) -> InProcess:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Do nothing: nothing was started."""

    def submit(self, task: Task) -> Future[list[str]]:
        """Measure a cell now."""
        return run_now(lambda: run_task(task, self.progress))


def run_now(act: Callable[[], object]) -> Future[list[str]]:
    """Call `act` here and now, and return a future that has ended."""
    future: Future[list[str]] = Future()
    try:
        act()
        future.set_result([])
    except IsoscopeError as error:  # anything else is a bug of ours, and ends this process with its traceback
        future.set_exception(error)
    return future


class Retrying:
    """Tries tasks again on another executor: in a new process if one ended, and with half the batch if memory ran out."""

    def __init__(self, executor: Executor) -> None:
        self.executor = executor

    @property
    def count(self) -> int:
        """As many as the executor within."""
        return self.executor.count

    def __enter__(self) -> Retrying:
        self.executor.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.executor.__exit__(kind, error, trace)

    def submit(self, task: Task) -> Future[list[str]]:
        """Measure a cell. The future holds the result of the last attempt."""
        outer: Future[list[str]] = Future()
        self._attempt(task, outer, losses=0, halved=False)
        return outer

    def _attempt(self, task: Task, outer: Future[list[str]], losses: int, halved: bool) -> None:
        def handle_end(inner: Future[list[str]]) -> None:
            error = inner.exception()
            if error is None:
                outer.set_result(inner.result())
            elif isinstance(error, NoMemoryError) and not halved and (smaller := task.with_half_batch):
                self._attempt_again(smaller, outer, losses, halved=True)
            elif isinstance(error, LostError) and losses < MAX_LOSSES:
                self._attempt_again(task, outer, losses + 1, halved=halved)
            else:
                outer.set_exception(error)

        self.executor.submit(task).add_done_callback(handle_end)

    def _attempt_again(self, task: Task, outer: Future[list[str]], losses: int, *, halved: bool) -> None:
        try:
            self._attempt(task, outer, losses, halved)
        except BaseException as error:  # this runs in a callback, where an exception would be logged and `outer` would never end
            outer.set_exception(error)
