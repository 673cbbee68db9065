"""The scheduler: runs jobs here, in processes or on a cluster, several at a time, and fetches each job one ahead of the others.

A cell does not depend on the executor that measured it, and neither does its key.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from typing import Protocol

from isoscope.core.errors import IsoscopeError, IsoscopeWarning
from isoscope.core.machine import cores, memory_left
from isoscope.core.progress import FETCH_THREAD, Progress
from isoscope.core.user_input import check_word
from isoscope.core.wording import format_duration
from isoscope.measuring.cost_estimate import BASE_MEMORY, WEIGHT_COPIES
from isoscope.measuring.options import Options
from isoscope.measuring.ray_workers import RayWorkers
from isoscope.measuring.task import LostError, NoMemoryError, Task, run_task
from isoscope.measuring.worker_processes import Workers
from isoscope.runs.writing import FullDiskError

ENGINES = ("local", "ray")
MAX_LOSSES = 3
"""How often a cell is measured again after the process that measured it ended."""
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
        check_word("--executor takes", self.name, ENGINES, joined=" or ")
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

    def open(self, count: int, options: Options, progress: Progress) -> AbstractContextManager[Executor]:
        """An executor for `count` cells at a time, or for as many as a cluster has room for."""
        if self.is_remote:
            return RayWorkers(self.address, self.processes, options)
        return Workers(count) if count > 1 else InProcess(progress)


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
        self._holds_model = False

    def __enter__(self) -> InProcess:
        return self

    def __exit__(self, *_: object) -> None:
        if self._holds_model:
            from isoscope.measuring.model_feeder import release_model  # imported already, with the model

            release_model()

    def submit(self, task: Task) -> Future[list[str]]:
        """Measure a cell now."""
        self._holds_model |= task.part and not task.merges
        try:
            run_task(task, self.progress)
        except IsoscopeError as error:  # anything else is a bug of ours, and ends this process with its traceback
            return _ended_future(error)
        return _ended_future()


def _ended_future(error: IsoscopeError | None = None) -> Future[list[str]]:
    """A future that has ended, with an error or without warnings."""
    future: Future[list[str]] = Future()
    future.set_result([]) if error is None else future.set_exception(error)
    return future


class Job:
    """One piece of work, usually one cell. Its name in progress lines is `str(job)`.

    The scheduler calls `prepare_fetch`, `fetch`, `start`, then `finish` or `fail`, and later `clean_up`.
    """

    def prepare_fetch(self) -> None:
        """Get ready to fetch; runs in the main thread."""

    def fetch(self) -> None:
        """Get what the job needs, such as a download; runs in a background thread while earlier jobs are measured."""

    def is_ready(self) -> bool:
        """Whether earlier jobs have made what this one needs. The scheduler waits for those that run; then it starts the job anyway."""
        return True

    def start(self) -> Task | None:
        """Return the cell to measure; None if the work is done when this returns."""
        raise NotImplementedError

    def finish(self) -> None:
        """Complete the job after its work succeeded."""

    def fail(self, error: IsoscopeError, *, fetched: bool) -> None:
        """Remember why the job failed, in its work or already when it was fetched. Raising the error stops all jobs."""
        raise NotImplementedError

    def clean_up(self, in_use: Sequence[Job]) -> bool:
        """Delete what the job fetched, unless a job that is `in_use` needs it; return whether no further call is needed."""
        return True


@dataclass(frozen=True)
class Attempt:
    """A job that runs: how often the process that measured its cell ended, and whether its batch was halved."""

    job: Job
    task: Task | None = None
    losses: int = 0
    halved: bool = False

    def next_after(self, error: BaseException | None) -> Attempt | None:
        """The attempt to make after this one ended: in a new process if one died, with half the batch if memory ran out, or none."""
        if self.task is None:
            return None
        if isinstance(error, NoMemoryError) and not self.halved and (smaller := self.task.with_half_batch):
            return replace(self, task=smaller, halved=True)
        if isinstance(error, LostError) and self.losses < MAX_LOSSES:
            return replace(self, losses=self.losses + 1)
        return None


class Scheduler:
    """Runs jobs, as many at a time as an executor takes. A job that fails stops no other, except on a full disk.

    `open_executor` is called with the first task, since the size of a model may decide how many are measured at once.
    """

    def __init__(self, open_executor: Callable[[Task], AbstractContextManager[Executor]], progress: Progress) -> None:
        self._open_executor, self._progress = open_executor, progress
        self._executor: Executor | None = None
        self._stack = ExitStack()
        self._running: dict[Future[list[str]], Attempt] = {}
        self._to_clean_up: list[Job] = []
        self.succeeded = 0
        """How many jobs succeeded, those included that an earlier command finished."""

    def run(self, jobs: Sequence[Job], what: str, *, done: Sequence[Job] = ()) -> None:
        """Run all jobs; `what` is their name in the progress bar. Jobs that are `done` already are only counted and cleaned up."""
        self.succeeded, self._to_clean_up = len(done), list(done)
        with self._progress.bar(what, len(done) + len(jobs), "done") as bar, self._stack:
            bar.advance(len(done))
            started, ended = time.monotonic(), 0

            def report(job: Job, outcome: str) -> None:
                nonlocal ended
                ended += 1
                seconds_left = (time.monotonic() - started) / ended * (len(jobs) - ended)
                self._progress.note(f"{job}: {outcome}, {ended} of {len(jobs)}, about {format_duration(seconds_left)} left")
                bar.advance()

            for job, error in self._fetch_one_ahead(jobs):
                while self._running and not job.is_ready():
                    report(*self._collect())
                if error is None:
                    self._start(job)
                else:
                    job.fail(error, fetched=False)
                    report(job, "failed")
                # No more jobs run than are measured at once: each of them holds a cell in memory, or a download on disk.
                while self._running and len(self._running) >= (self._executor.count if self._executor else 1):
                    report(*self._collect())
            while self._running:
                report(*self._collect())
            self._clean_up(None)

    def _start(self, job: Job) -> None:
        """Start a job, and measure its cell unless another process has finished that in the meantime."""
        try:
            task = job.start()
        except IsoscopeError as error:
            self._running[_ended_future(error)] = Attempt(job)
        else:
            self._submit(Attempt(job, None if task is None or task.is_done else task))

    def _submit(self, attempt: Attempt) -> Future[list[str]]:
        if attempt.task is None:
            future = _ended_future()
        else:
            if self._executor is None:
                self._executor = self._stack.enter_context(self._open_executor(attempt.task))
            future = self._executor.submit(attempt.task)
        self._running[future] = attempt
        return future

    def _try_again(self, future: Future[list[str]]) -> Future[list[str]] | None:
        """Wait for an attempt; make another one if that may help, and return it."""
        again = self._running[future].next_after(future.exception())
        if again is None:
            return None
        del self._running[future]
        return self._submit(again)

    def another_job_succeeds(self) -> bool:
        """Whether a job has succeeded or one that is running will. Waits for those that are running."""
        return self.succeeded > 0 or any(self._succeeds(future) for future in list(self._running))

    def _succeeds(self, future: Future[list[str]]) -> bool:
        while (again := self._try_again(future)) is not None:
            future = again
        return future.exception() is None

    def _fetch_one_ahead(self, jobs: Sequence[Job]) -> Iterator[tuple[Job, IsoscopeError | None]]:
        """Each job once it is fetched, with the error if that failed, while the next one is being fetched."""
        fetching = _start_fetch(jobs[0]) if jobs else None
        for i, job in enumerate(jobs):
            assert fetching is not None
            error = fetching.exception()  # waits
            if error is not None and not isinstance(error, IsoscopeError):
                raise error
            # At this moment nothing is being fetched, so no clean-up can delete a file that a download is about to share.
            self._clean_up(None if error else job)
            fetching = _start_fetch(jobs[i + 1]) if i + 1 < len(jobs) else None
            yield job, error

    def _collect(self) -> tuple[Job, str]:
        """Wait until a running job ends; return it, and whether it is done or failed."""
        while True:
            wait(self._running, return_when=FIRST_COMPLETED)
            future = next(future for future in self._running if future.done())
            if self._try_again(future) is None:
                break
        job = self._running.pop(future).job
        self._to_clean_up.append(job)
        error = future.exception()
        if error is None:
            # Nobody sees the warnings of a worker process, so they are raised here.
            for text in future.result():
                warnings.warn(text, IsoscopeWarning, stacklevel=2)
            try:
                job.finish()
            except IsoscopeError as own:
                error = own
            else:
                self.succeeded += 1
                return job, "done"
        if isinstance(error, FullDiskError) or not isinstance(error, IsoscopeError):
            raise error
        job.fail(error, fetched=True)
        return job, "failed"

    def _clean_up(self, fetched: Job | None) -> None:
        """Clean up after jobs that ended, except for files that running jobs or the job just fetched still need."""
        in_use = [*(attempt.job for attempt in self._running.values()), *([fetched] if fetched is not None else [])]
        self._to_clean_up = [job for job in self._to_clean_up if not job.clean_up(in_use)]


def _start_fetch(job: Job) -> Future[None]:
    """Fetch a job in a daemon thread, which does not keep an interrupted process alive as a thread of a pool would."""
    job.prepare_fetch()
    future: Future[None] = Future()

    def work() -> None:
        try:
            job.fetch()
            future.set_result(None)
        except BaseException as error:  # whatever it is, the main thread waits for this future and raises it
            future.set_exception(error)

    threading.Thread(target=work, name=FETCH_THREAD, daemon=True).start()
    return future
