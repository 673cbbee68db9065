"""Executors measure cells: in this process, in several processes of this machine, or on a cluster.

A cell does not depend on the executor that measured it, and neither does its key.
"""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnContext
from types import TracebackType
from typing import Protocol

from isoscope.core.errors import IsoscopeError, nearest
from isoscope.core.memory import memory_left
from isoscope.core.progress import Progress
from isoscope.measuring.machine import BASE_MEMORY, WEIGHT_COPIES, cores, hide_current_folder, oom_kills
from isoscope.measuring.options import Options
from isoscope.measuring.ray_workers import RayWorkers
from isoscope.measuring.task import LostError, NoMemoryError, Task, out_of_memory, run_task, run_task_in_worker

ENGINES = ("local", "ray")
MAX_LOSSES = 3
"""How often a cell is given to another process after the one that measured it ended."""
PROCESS_DIED = "A worker process died, probably out of memory. Run the same command again to resume; --processes 1 takes less memory."
MIN_CELLS = 4
"""A process pays for its start-up time if it measures at least this many cells."""


class Executor(Protocol):
    """Takes tasks, `count` at a time, and writes each finished cell into its run."""

    @property
    def count(self) -> int:
        """How many cells are measured at once. A cluster may change it at any time."""

    def submit(self, task: Task) -> Future[list[str]]:
        """Measure a cell. The future holds the texts of warnings, or the error: `LostError`, `NoMemoryError` or another one."""


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

    def choose_count(self, cells: int, weights: int, options: Options, data: tuple[str, ...]) -> int:
        """How many cells to measure at once on this machine, with models of `weights` bytes each; 1 on a cluster, which decides itself.

        This is the number that the user asked for, or as many as cores, cells and memory allow. It is 1 if there may be an accelerator,
        which processes would have to share, or if the data come from standard input.
        """
        if self.is_remote or "-" in data or cells < 2:
            return 1
        if asked := self.processes or (min(self.split_into, cores()) if self.split_into else None):
            return min(asked, cells)
        if _has_accelerator(options.device):
            return 1
        fitting = memory_left() // (BASE_MEMORY + WEIGHT_COPIES * weights)
        return max(1, min(cores() // (options.threads or 1), cells // MIN_CELLS, fitting))

    @contextlib.contextmanager
    def open(self, count: int, options: Options, progress: Progress) -> Iterator[Executor]:
        """An executor for `count` cells at a time, or for as many as a cluster has room for."""
        if count == 1 and not self.is_remote:
            yield Retrying(InProcess(progress))
            return
        with RayWorkers(self.address, self.processes, options) if self.is_remote else Workers(count) as workers:
            yield Retrying(workers)


def _has_accelerator(device: str) -> bool:
    if device == "cpu":
        return False
    import torch

    return device != "auto" or bool(torch.accelerator.is_available())


class InProcess:
    """Measures one cell at a time in this process: a task is finished when `submit` returns."""

    count = 1

    def __init__(self, progress: Progress) -> None:
        self.progress = progress

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
    """Retries tasks on another executor: in a new process if one died, and with half the batch if memory ran out."""

    def __init__(self, executor: Executor) -> None:
        self.executor = executor

    @property
    def count(self) -> int:
        """As many as the executor within."""
        return self.executor.count

    def submit(self, task: Task) -> Future[list[str]]:
        """Measure a cell. The future holds the result of the last attempt."""
        outer: Future[list[str]] = Future()
        self._attempt(task, outer, losses=0, halved=False)
        return outer

    def _attempt(self, task: Task, outer: Future[list[str]], losses: int, *, halved: bool) -> None:
        def handle_end(inner: Future[list[str]]) -> None:
            error = inner.exception()
            try:
                if error is None:
                    outer.set_result(inner.result())
                elif isinstance(error, NoMemoryError) and not halved and (smaller := task.with_half_batch):
                    self._attempt(smaller, outer, losses, halved=True)
                elif isinstance(error, LostError) and losses < MAX_LOSSES:
                    self._attempt(task, outer, losses + 1, halved=halved)
                else:
                    outer.set_exception(error)
            except BaseException as failure:  # this is a callback: an exception would only be logged, and `outer` would never end
                outer.set_exception(failure)

        self.executor.submit(task).add_done_callback(handle_end)


@dataclass
class Slot:
    """A place for one process. If the process dies, a new one takes its place and the other processes continue."""

    # One pool per process: a pool of several is broken as a whole when one of its processes dies.
    pool: ProcessPoolExecutor
    weights: str = ""
    """The hash of the weights that the process holds."""
    busy: bool = False


class Workers:
    """`count` processes for as long as the context lasts. They end with this process, even if it is killed."""

    def __init__(self, count: int) -> None:
        self._context: SpawnContext = multiprocessing.get_context("spawn")
        # Nothing is ever written into this pipe. The system closes its writing end when this process ends, and workers wait for that.
        self._reader, self._lifeline = self._context.Pipe(duplex=False)
        self._slots = [Slot(self._start_process()) for _ in range(count)]
        self._waiting: deque[tuple[Task, Future[list[str]]]] = deque()
        self._lock = threading.RLock()
        self._closed = False

    @property
    def count(self) -> int:
        """One cell per process."""
        return len(self._slots)

    def _start_process(self) -> ProcessPoolExecutor:
        with hide_current_folder():  # the locks of a pool start a process that tracks resources
            return ProcessPoolExecutor(1, self._context, initializer=_initialise_worker, initargs=(self._reader,))

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with self._lock:
            self._closed = True
            self._waiting.clear()
        if kind is not None:  # after an error nobody waits for running cells; the next command resumes them
            self._lifeline.close()
        for slot in self._slots:
            slot.pool.shutdown(cancel_futures=True)

    def submit(self, task: Task) -> Future[list[str]]:
        """Measure a cell in a process that is free, preferably one that holds its model already."""
        outer: Future[list[str]] = Future()
        with self._lock:
            if self._closed:
                outer.set_exception(CancelledError())
                return outer
            threads = task.options.threads or max(1, cores() // self.count)
            self._waiting.append((replace(task, options=replace(task.options, threads=threads)), outer))
            self._assign_tasks()
        return outer

    def _assign_tasks(self) -> None:
        """Give waiting tasks to free processes."""
        while self._waiting and (free := [slot for slot in self._slots if not slot.busy]):
            task, outer = self._waiting.popleft()
            weights = task.reference.weights
            # Prefer a process that holds the model, then an empty one: taking another's place would make it load its model again.
            slot = min(free, key=lambda slot: (slot.weights != weights, bool(slot.weights)))
            slot.weights, slot.busy = weights, True
            kills_before = oom_kills()
            with hide_current_folder():  # the first task of a pool starts its process
                try:
                    inner = slot.pool.submit(run_task_in_worker, task)
                except BrokenProcessPool:  # its process died while it was idle
                    slot.pool.shutdown(wait=False)
                    slot.pool = self._start_process()
                    inner = slot.pool.submit(run_task_in_worker, task)
            inner.add_done_callback(partial(self._handle_end, slot, task, outer, kills_before))

    def _handle_end(self, slot: Slot, task: Task, outer: Future[list[str]], kills_before: int, inner: Future[list[str]]) -> None:
        """Free the slot, replace its process if it died, and pass the result on."""
        error = None if inner.cancelled() else inner.exception()
        lost = isinstance(error, BrokenProcessPool)
        with self._lock:
            if lost and not self._closed:
                slot.pool.shutdown(wait=False)
                slot.pool, slot.weights = self._start_process(), ""
            slot.busy = False
        if inner.cancelled():
            outer.set_exception(CancelledError())
        elif lost:
            # The system does not say which process it killed for lack of memory, but a new kill while this one died is a strong hint.
            outer.set_exception(out_of_memory(task.reference.name) if oom_kills() > kills_before else LostError(PROCESS_DIED))
        elif error is not None:
            outer.set_exception(error)
        else:
            outer.set_result(inner.result())
        with self._lock:
            self._assign_tasks()


def _initialise_worker(lifeline: Connection) -> None:
    """Import the libraries once. End this process as soon as the one that started it has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the one that started this one decides when it ends
    threading.Thread(target=lambda: (wait([lifeline]), os._exit(1)), daemon=True).start()
    import torch  # noqa: F401
    import transformers  # noqa: F401

    gc.freeze()  # every later search for garbage leaves out what the libraries made
