"""The scheduler: runs the jobs of a measurement or a sweep, several at a time, and fetches each job one ahead of the others."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import AbstractContextManager, ExitStack

from isoscope.core.errors import IsoscopeError, IsoscopeWarning
from isoscope.core.progress import FETCH_THREAD, Bar, Progress
from isoscope.core.wording import format_duration
from isoscope.measuring.executor import Executor, run_now
from isoscope.measuring.task import Task
from isoscope.runs.writing import FullDiskError


class Job:
    """One piece of work, usually one cell. Its name in progress lines is `str(job)`.

    The scheduler calls `prepare_fetch`, `fetch`, `start`, then `finish` or `fail`, and later `clean_up`.
    """

    def prepare_fetch(self) -> None:
        """Get ready to fetch; runs in the main thread."""

    def fetch(self) -> None:
        """Get what the job needs, such as a download; runs in a background thread while earlier jobs are measured."""

    def start(self, scheduler: Scheduler) -> Future[list[str]]:
        """Begin the work, usually with `scheduler.submit`. The future holds the texts of warnings."""
        raise NotImplementedError

    def finish(self) -> None:
        """Complete the job after its work succeeded."""

    def fail(self, error: IsoscopeError, *, fetched: bool) -> None:
        """Remember why the job failed, in its work or already when it was fetched. Raising the error stops all jobs."""
        raise NotImplementedError

    def clean_up(self, in_use: Sequence[Job]) -> bool:
        """Delete what the job fetched, unless a job that is `in_use` needs it; return whether no further call is needed."""
        return True


class Scheduler:
    """Runs jobs, as many at a time as an executor takes. A job that fails stops no other, except on a full disk.

    `open_executor` is called with the first task, since the size of a model may decide how many are measured at once.
    """

    def __init__(self, open_executor: Callable[[Task], AbstractContextManager[Executor]], progress: Progress) -> None:
        self._open_executor, self._progress = open_executor, progress
        self._executor: Executor | None = None
        self._stack = ExitStack()
        self._running: dict[Future[list[str]], Job] = {}
        self._to_clean_up: list[Job] = []
        self.succeeded = 0
        """How many jobs succeeded, those included that an earlier command finished."""

    def run(self, jobs: Sequence[Job], what: str, *, done: Sequence[Job] = ()) -> None:
        """Run all jobs; `what` is their name in the progress bar. Jobs that are `done` already are only counted and cleaned up."""
        self.succeeded, self._to_clean_up = len(done), list(done)
        with self._progress.bar(what, len(done) + len(jobs), "done") as bar, self._stack:
            bar.advance(len(done))
            countdown = _Countdown(len(jobs), bar, self._progress)
            for job, error in self._fetch_one_ahead(jobs):
                if error is None:
                    self._running[job.start(self)] = job
                else:
                    job.fail(error, fetched=False)
                    countdown.report(job, "failed")
                # No more jobs run than are measured at once: each of them holds a cell in memory, or a download on disk.
                while self._running and len(self._running) >= (self._executor.count if self._executor else 1):
                    countdown.report(*self._collect())
            while self._running:
                countdown.report(*self._collect())
            self._clean_up(None)

    def submit(self, task: Task) -> Future[list[str]]:
        """Measure a cell, unless another process has finished it in the meantime."""
        if task.is_done:
            return run_now(lambda: None)
        if self._executor is None:
            self._executor = self._stack.enter_context(self._open_executor(task))
        return self._executor.submit(task)

    def another_job_succeeds(self) -> bool:
        """Whether a job has succeeded or one that is running will. Waits for those that are running."""
        return self.succeeded > 0 or any(future.exception() is None for future in self._running)

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
        wait(self._running, return_when=FIRST_COMPLETED)
        future = next(future for future in self._running if future.done())
        job = self._running.pop(future)
        self._to_clean_up.append(job)
        error = future.exception()
        if error is None:
            # Nobody sees the warnings of a worker process, so they are raised here.
            for text in future.result():
                warnings.warn(text, IsoscopeWarning, stacklevel=2)
            job.finish()
            self.succeeded += 1
            return job, "done"
        if isinstance(error, FullDiskError) or not isinstance(error, IsoscopeError):
            raise error
        job.fail(error, fetched=True)
        return job, "failed"

    def _clean_up(self, fetched: Job | None) -> None:
        """Clean up after jobs that ended, except for files that running jobs or the job just fetched still need."""
        in_use = [*self._running.values(), *([fetched] if fetched is not None else [])]
        self._to_clean_up = [job for job in self._to_clean_up if not job.clean_up(in_use)]


class _Countdown:
    """Notes how many jobs have ended and how long the others will take."""

    def __init__(self, total: int, bar: Bar, progress: Progress) -> None:
        self._total, self._bar, self._progress = total, bar, progress
        self._started, self._ended = time.monotonic(), 0

    def report(self, job: Job, outcome: str) -> None:
        """Note that a job ended."""
        self._ended += 1
        seconds_left = (time.monotonic() - self._started) / self._ended * (self._total - self._ended)
        self._progress.note(f"{job}: {outcome}, {self._ended} of {self._total}, about {format_duration(seconds_left)} left")
        self._bar.advance()


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
