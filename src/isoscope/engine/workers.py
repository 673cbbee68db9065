"""Processes of this machine that measure side by side, each with its share of the threads and one model in memory."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import threading
from collections import deque
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnContext
from types import TracebackType

from isoscope.core.errors import IsoscopeError
from isoscope.core.memory import memory_left
from isoscope.engine.machine import cores, oom_kills
from isoscope.engine.options import Options
from isoscope.engine.safe_start import hide_current_folder
from isoscope.engine.task import LostError, Task, out_of_memory, run_task_in_worker

EACH = 4
"""Checkpoints that a process must have to measure before it earns the seconds in which it starts."""
ROOM = 1 << 30
"""Bytes that a process takes before it holds a model: libraries, and statistics of a small one."""
COPIES = 4
"""Times its weights that a process may take while it measures: loaded, read, and statistics of all layers."""


def choose_process_count(asked: int | None, left: int, weights: int, options: Options, data: tuple[str, ...]) -> int:
    """How many processes to measure with: so many as were asked for, or as many as cores, checkpoints and memory have room for.

    One where a device other than the CPU may be there to share, or where the data come from standard input.
    """
    if asked is not None and asked < 1:
        raise IsoscopeError(f"--processes takes 1 or more; got {asked}.")
    if "-" in data or left < 2:
        return 1
    if asked is not None:
        return min(asked, left)
    if _has_accelerator(options.device):
        return 1
    fit = memory_left() // (ROOM + COPIES * weights)
    return max(1, min(cores() // (options.threads or 1), left // EACH, fit))


def _has_accelerator(device: str) -> bool:
    if device == "cpu":
        return False
    import torch

    return device != "auto" or bool(torch.accelerator.is_available())


@dataclass
class Slot:
    """A place for one process; where it ends by itself, another takes its place and no other process is touched."""

    pool: ProcessPoolExecutor
    weights: str = ""
    """What the model is that its process holds."""
    busy: bool = False


class Workers:
    """So many processes for as long as the context lasts. They end with this process, however it ends."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._context: SpawnContext = multiprocessing.get_context("spawn")
        self._reader, self._lifeline = self._context.Pipe(duplex=False)
        self._slots = [Slot(self._process()) for _ in range(count)]
        self._waiting: deque[tuple[Task, Future[list[str]]]] = deque()
        self._lock = threading.RLock()
        self._closed = False

    def _process(self) -> ProcessPoolExecutor:
        with hide_current_folder():  # its locks start the process that tracks resources
            return ProcessPoolExecutor(1, self._context, initializer=_start, initargs=(self._reader,))

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with self._lock:
            self._closed = True
            self._waiting.clear()
        if kind is not None:  # what is under way is resumed by the next call; nobody waits for it
            self._lifeline.close()
        for slot in self._slots:
            slot.pool.shutdown(cancel_futures=True)

    def submit(self, task: Task) -> Future[list[str]]:
        """Measure a cell in the first process that is free, if there are several in the one that holds its model."""
        outer: Future[list[str]] = Future()
        with self._lock:
            if self._closed:
                outer.set_exception(CancelledError())
                return outer
            self._waiting.append((replace(task, options=_share_threads(task.options, self.count)), outer))
            self._begin()
        return outer

    def _begin(self) -> None:
        """Give what waits to those who are free."""
        while self._waiting and (free := [slot for slot in self._slots if not slot.busy]):
            task, outer = self._waiting.popleft()
            weights = task.reference.weights
            slot = min(free, key=lambda one: (one.weights != weights, bool(one.weights)))
            slot.weights, slot.busy = weights, True
            killed = oom_kills()
            with hide_current_folder():  # the first task of a pool starts its process
                try:
                    inner = slot.pool.submit(run_task_in_worker, task)
                except BrokenProcessPool:  # it ended while it was idle
                    slot.pool.shutdown(wait=False)
                    slot.pool = self._process()
                    inner = slot.pool.submit(run_task_in_worker, task)
            inner.add_done_callback(lambda done, one=(slot, task, outer, killed): self._ended(done, *one))  # type: ignore[misc]

    def _ended(self, inner: Future[list[str]], slot: Slot, task: Task, outer: Future[list[str]], killed: int) -> None:
        error = None if inner.cancelled() else inner.exception()
        lost = isinstance(error, BrokenProcessPool)
        with self._lock:
            if lost and not self._closed:
                slot.pool.shutdown(wait=False)
                slot.pool, slot.weights = self._process(), ""
            slot.busy = False
        if inner.cancelled():
            outer.set_exception(CancelledError())
        elif lost:
            outer.set_exception(out_of_memory(task.reference.name) if oom_kills() > killed else gone())
        elif error is not None:
            outer.set_exception(error)
        else:
            outer.set_result(inner.result())
        with self._lock:
            self._begin()


def _share_threads(options: Options, count: int) -> Options:
    """Options with the share of the threads that one of `count` processes gets."""
    return replace(options, threads=options.threads or max(1, cores() // max(1, count)))


def gone() -> LostError:
    """What to say where a process ended by itself."""
    return LostError(
        "A process that was measuring has ended by itself, as it does when memory runs out; the same command goes on, with "
        "--processes 1 in less memory."
    )


def _start(lifeline: Connection) -> None:
    """Load what is needed once, and leave it out of every later search for garbage; end as soon as nobody holds the other end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started this process says when it ends
    threading.Thread(target=lambda: (wait([lifeline]), os._exit(1)), daemon=True).start()
    import torch  # noqa: F401
    import transformers  # noqa: F401

    gc.freeze()
