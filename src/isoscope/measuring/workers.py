"""Worker processes of this machine that measure in parallel, each with a share of the threads and one model in memory."""

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
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnContext
from types import TracebackType

from isoscope.core.errors import IsoscopeError
from isoscope.core.memory import memory_left
from isoscope.measuring.machine import BASE_MEMORY, cores, oom_kills
from isoscope.measuring.options import Options
from isoscope.measuring.safe_start import hide_current_folder
from isoscope.measuring.task import LostError, Task, out_of_memory, run_task_in_worker

MIN_CELLS = 4
"""A process pays for its start-up time if it measures at least this many cells."""
WEIGHT_COPIES = 4
"""A process takes up to this many times the weights: to load and read them, and for statistics of all layers."""


def choose_process_count(asked: int | None, left: int, weights: int, options: Options, data: tuple[str, ...]) -> int:
    """The number of processes: as many as were asked for, or as many as cores, cells that are left and memory allow.

    It is 1 if there may be an accelerator, which processes would have to share, or if the data come from standard input.
    """
    if asked is not None and asked < 1:
        raise IsoscopeError(f"--processes takes 1 or more; got {asked}.")
    if "-" in data or left < 2:
        return 1
    if asked is not None:
        return min(asked, left)
    if _has_accelerator(options.device):
        return 1
    fitting = memory_left() // (BASE_MEMORY + WEIGHT_COPIES * weights)
    return max(1, min(cores() // (options.threads or 1), left // MIN_CELLS, fitting))


def _has_accelerator(device: str) -> bool:
    if device == "cpu":
        return False
    import torch

    return device != "auto" or bool(torch.accelerator.is_available())


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
        self.count = count
        self._context: SpawnContext = multiprocessing.get_context("spawn")
        # Nothing is ever written into this pipe. The system closes its writing end when this process ends, and workers wait for that.
        self._reader, self._lifeline = self._context.Pipe(duplex=False)
        self._slots = [Slot(self._start_process()) for _ in range(count)]
        self._waiting: deque[tuple[Task, Future[list[str]]]] = deque()
        self._lock = threading.RLock()
        self._closed = False

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
            self._waiting.append((replace(task, options=_share_threads(task.options, self.count)), outer))
            self._assign_tasks()
        return outer

    def _assign_tasks(self) -> None:
        """Give waiting tasks to free processes."""
        while self._waiting and (free := [slot for slot in self._slots if not slot.busy]):
            task, outer = self._waiting.popleft()
            weights = task.reference.weights
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
            outer.set_exception(out_of_memory(task.reference.name) if oom_kills() > kills_before else process_died())
        elif error is not None:
            outer.set_exception(error)
        else:
            outer.set_result(inner.result())
        with self._lock:
            self._assign_tasks()


def _share_threads(options: Options, count: int) -> Options:
    """Options with the share of the threads that one of `count` processes gets."""
    return replace(options, threads=options.threads or max(1, cores() // max(1, count)))


def process_died() -> LostError:
    """The error to raise when a worker process died and it is not known why."""
    return LostError(
        "A worker process died, probably out of memory. Run the same command again to resume; --processes 1 takes less memory."
    )


def _initialise_worker(lifeline: Connection) -> None:
    """Import the libraries once. End this process as soon as the one that started it has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the one that started this one decides when it ends
    threading.Thread(target=lambda: (wait([lifeline]), os._exit(1)), daemon=True).start()
    import torch  # noqa: F401
    import transformers  # noqa: F401

    gc.freeze()  # every later search for garbage leaves out what the libraries made
