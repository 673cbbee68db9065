"""Processes of this machine that measure: one cell each at a time, and a process that dies is replaced."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import threading
from concurrent.futures import CancelledError, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnContext
from types import TracebackType

from isoscope.core.machine import cores, hide_current_folder, oom_kills
from isoscope.measuring.task import LostError, Task, out_of_memory, run_task_in_worker

PROCESS_DIED = "A worker process died, probably out of memory. Run the same command again to resume; --processes 1 takes less memory."


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
        if kind is not None:  # after an error nobody waits for running cells; the next command resumes them
            self._lifeline.close()
        for slot in self._slots:
            slot.pool.shutdown(cancel_futures=True)

    def submit(self, task: Task) -> Future[list[str]]:
        """Measure a cell in a free process, preferably one that holds its model. There is one: the scheduler submits `count` at most."""
        threads = task.options.threads or max(1, cores() // self.count)
        task = replace(task, options=replace(task.options, threads=threads))
        outer: Future[list[str]] = Future()
        weights = task.reference.weights
        # Prefer a process that holds the model, then an empty one: taking another's place would make it load its model again.
        free = (slot for slot in self._slots if not slot.busy)
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
        return outer

    def _handle_end(self, slot: Slot, task: Task, outer: Future[list[str]], kills_before: int, inner: Future[list[str]]) -> None:
        """Free the slot, replace its process if it died, and pass the result on."""
        error = CancelledError() if inner.cancelled() else inner.exception()
        if isinstance(error, BrokenProcessPool):
            with self._lock:
                if not self._closed:
                    slot.pool.shutdown(wait=False)
                    slot.pool, slot.weights = self._start_process(), ""
            # The system does not say which process it killed for lack of memory, but a new kill while this one died is a strong hint.
            error = out_of_memory(task.reference.name) if oom_kills() > kills_before else LostError(PROCESS_DIED)
        slot.busy = False  # before the scheduler learns of the end, and submits the next task
        if error is None:
            outer.set_result(inner.result())
        else:
            outer.set_exception(error)


def _initialise_worker(lifeline: Connection) -> None:
    """Import the libraries once. End this process as soon as the one that started it has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the one that started this one decides when it ends
    threading.Thread(target=lambda: (wait([lifeline]), os._exit(1)), daemon=True).start()
    import torch  # noqa: F401
    import transformers  # noqa: F401

    gc.freeze()  # every later search for garbage leaves out what the libraries made
