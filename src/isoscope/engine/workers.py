"""Processes that measure checkpoints side by side, each with its share of the threads."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import threading
import warnings
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import TracebackType

from isoscope.core.errors import IsoscopeError, IsoscopeWarning
from isoscope.engine.announce import available_memory
from isoscope.engine.measure import Given, measure_model
from isoscope.engine.options import Options
from isoscope.engine.progress import Progress
from isoscope.models.reference import ModelReference
from isoscope.store.run import Run

EACH = 4
"""Checkpoints that a process must have to measure before it earns the seconds in which it starts."""
ROOM = 1 << 30
"""Bytes that a process takes before it holds a model: libraries, and statistics of a small one."""
COPIES = 4
"""Times its weights that a process may take while it measures: loaded, read, and statistics of all layers."""


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def how_many(asked: int | None, left: int, weights: int, options: Options, data: tuple[str, ...]) -> int:
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
    fit = available_memory() // (ROOM + COPIES * weights)
    return max(1, min(cores() // (options.threads or 1), left // EACH, fit))


def _has_accelerator(device: str) -> bool:
    if device == "cpu":
        return False
    import torch

    return device != "auto" or bool(torch.accelerator.is_available())


@dataclass(frozen=True)
class Task:
    """One checkpoint to be measured into a run, in words that another process understands."""

    run: Path
    reference: ModelReference
    data: tuple[str, ...]
    column: str | None
    models: tuple[str, ...]
    options: Options


class Workers:
    """So many processes for as long as the context lasts. They end with this process, however it ends."""

    def __init__(self, count: int) -> None:
        self.count = count
        context = multiprocessing.get_context("spawn")
        reader, self._lifeline = context.Pipe(duplex=False)
        self._pool = ProcessPoolExecutor(count, context, initializer=_start, initargs=(reader,))

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is not None:  # what is under way is resumed by the next call; nobody waits for it
            self._lifeline.close()
        self._pool.shutdown(cancel_futures=True)

    def submit(self, task: Task) -> Future[list[str]]:
        """Measure a checkpoint; the future holds what was warned of."""
        try:
            return self._pool.submit(_measure, task)
        except BrokenProcessPool as error:
            raise gone() from error


def gone() -> IsoscopeError:
    """What to say where a process ended by itself."""
    return IsoscopeError(
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


@lru_cache(maxsize=1)
def _given(data: tuple[str, ...], column: str | None, models: tuple[str, ...]) -> Given:
    return Given(list(data), column, list(models))


def _measure(task: Task) -> list[str]:
    given = _given(task.data, task.column, task.models)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", IsoscopeWarning)
        source = given.for_model(task.reference, task.options)
        measure_model(Run(task.run), task.reference, source, task.options, Progress(quiet=True))
    return [str(one.message) for one in found if issubclass(one.category, IsoscopeWarning)]
