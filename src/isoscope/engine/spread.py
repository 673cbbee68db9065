"""Several cells side by side: models, and shards of one corpus, which are merged as soon as all are there."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from isoscope.core.errors import IsoscopeError, IsoscopeWarning
from isoscope.core.group import UNTRAINED
from isoscope.core.named import Name, named
from isoscope.engine.executor import Engine, Executor, cores
from isoscope.engine.measure import Given, cell_identity
from isoscope.engine.options import Options, options_from
from isoscope.engine.plan import Planned, plan, say, spoken
from isoscope.engine.progress import Progress
from isoscope.engine.results import merge_shards
from isoscope.engine.task import Task
from isoscope.engine.workers import how_many
from isoscope.models.reference import resolve, weight
from isoscope.store.manifest import key_of
from isoscope.store.run import Run
from isoscope.store.writing import FullDiskError

PARTS = "parts"
"""The folder within a run where shards lie until they are merged: a run of its own, which no table reads."""


@dataclass(frozen=True)
class Failure:
    """A model that was not measured, and why."""

    spec: str
    reason: IsoscopeError


class UnfinishedError(IsoscopeError):
    """Some models were measured and some were not."""

    code = 1

    def __init__(self, failures: list[Failure], asked: int) -> None:
        listed = " ".join(f"{one.spec}: {one.reason}" for one in failures)
        super().__init__(f"{len(failures)} of {asked} models were not measured; the same command tries them again. {listed}")
        self.failures = failures


@dataclass(frozen=True)
class Job:
    """One task, and what it is a part of."""

    planned: Planned
    task: Task


class Spread:
    """The way through all cells of a measurement."""

    def __init__(self, run: Run, given: Given, options: Options, engine: Engine, progress: Progress) -> None:
        self.run, self.given, self.options, self.engine, self.progress = run, given, options, engine, progress
        self.parts = run.within(PARTS)
        self.failures: list[Failure] = []
        self._left: dict[str, int] = {}  # shards of a model that are not there yet

    def go(self, planned: list[Planned], count: int) -> list[Failure]:
        """Measure what is not there; what fails stops no other, but for a full disk."""
        for one in planned:
            if one.done:
                self.progress.note(f"{one.reference.name}: already measured ({one.key}).")
        jobs = [job for one in planned if not one.done for job in self._jobs(one)]
        with ExitStack() as held:
            alone = count == 1 and not self.engine.far
            # One model after the other shows a bar for each; side by side there is one for all.
            executor = held.enter_context(
                self.engine.open(count, self.options, self.given, self.progress if alone else Progress(quiet=True))
            )
            if alone:
                for job, future in self._through(executor, iter(jobs)):
                    self._end(job, future)
            else:
                self._together(executor, jobs)
        return self.failures

    def _together(self, executor: Executor, jobs: list[Job]) -> None:
        started = time.monotonic()
        with self.progress.bar("cells", len(jobs), "done") as bar:
            for ended, (job, future) in enumerate(self._through(executor, iter(jobs)), 1):
                self._end(job, future)
                ahead = (time.monotonic() - started) / ended * (len(jobs) - ended)
                i, k = job.task.options.shard
                shard = f", shard {i + 1}/{k}" if k > 1 else ""
                said = "failed" if future.exception() else "done"
                self.progress.note(f"{job.planned.reference.name}{shard}: {said}, {ended} of {len(jobs)}, about {spoken(ahead)} left")
                bar.advance()

    def _jobs(self, one: Planned) -> Iterator[Job]:
        """The tasks of a model: one, or its shards that are not there yet; where all are, they are merged at once."""
        if one.shards == 1:
            yield Job(one, self._task(one, self.run, self.options, one.key))
            return
        jobs = []
        for i in range(one.shards):
            options = replace(self.options, shard=(i, one.shards), store="all")  # the tables are computed after the merge, of samples too
            key = key_of(cell_identity(one.reference, one.source, options))
            if self.parts.cell(key, "all") is None:
                jobs.append(Job(one, replace(self._task(one, self.parts, options, key), part=True)))
        self._left[one.key] = len(jobs)
        if jobs:
            yield from jobs
        else:
            self._merge(one)

    def _task(self, one: Planned, run: Run, options: Options, key: str) -> Task:
        return Task(run.path, one.reference, self.given.specs, self.given.column, self.given.models, options, key)

    def _through(self, executor: Executor, jobs: Iterator[Job]) -> Iterator[tuple[Job, Future[list[str]]]]:
        """Each job as it ends; never more are under way than are measured at once, so that nobody holds more than a few cells."""
        underway: dict[Future[list[str]], Job] = {}
        job = next(jobs, None)
        while job is not None or underway:
            while job is not None and len(underway) < executor.count:
                if Run(job.task.run).cell(job.task.key, job.task.options.store) is None:
                    underway[executor.submit(job.task)] = job
                else:  # another driver was here
                    done: Future[list[str]] = Future()
                    done.set_result([])
                    underway[done] = job
                job = next(jobs, None)
            for future in wait(underway, return_when=FIRST_COMPLETED).done:
                yield underway.pop(future), future

    def _end(self, job: Job, future: Future[list[str]]) -> None:
        error = future.exception()
        if error is None:
            for text in future.result():
                warnings.warn(text, IsoscopeWarning, stacklevel=2)
            if job.task.part:
                self._left[job.planned.key] -= 1
                if not self._left[job.planned.key]:
                    self._merge(job.planned)
        elif isinstance(error, FullDiskError) or not isinstance(error, IsoscopeError):
            raise error
        elif all(one.spec != job.planned.reference.spec for one in self.failures):
            self.failures.append(Failure(job.planned.reference.spec, error))

    def _merge(self, one: Planned) -> None:
        """The shards of a model into its cell; they go once it is there."""
        keys = [key_of(cell_identity(one.reference, one.source, replace(self.options, shard=(i, one.shards)))) for i in range(one.shards)]
        cells = [cell for key in keys if (cell := self.parts.cell(key, "all")) is not None]
        if self.run.cell(one.key, self.options.store) is None:
            merge_shards(self.run, one.key, cells, keep=self.options.store)
        for cell in cells:
            self.parts.remove(cell)


def open_spread(
    names: list[str],
    data: Name | Iterable[Name],
    out: str | Path,
    options: Options,
    column: str | None,
    progress: Progress,
    executor: str = "local",
    address: str | None = None,
    processes: int | None = None,
    split_into: int | None = None,
) -> tuple[Spread, list[Planned], int]:
    """What is to be measured, and how many cells at a time; every name is looked up first, so that a misspelt last one costs nothing."""
    asked = Engine(executor, address, processes, split_into)
    references = [resolve(name, seed=options.seed) for name in names]
    bare = [reference.name.removeprefix(UNTRAINED) for reference in references]
    given = Given(named(data), column, bare)
    asked.check(given.specs)
    run = Run(out)
    planned = plan(run, references, given, options, asked)
    left = [one for one in planned if not one.done]
    heaviest, cells = max((weight(one.reference) for one in left), default=0), sum(one.shards for one in left)
    side = processes or (min(split_into, cores()) if split_into else None)
    count = 1 if asked.far else how_many(side, cells, heaviest, options, given.specs)
    return Spread(run, given, options, asked, progress), planned, count


def lines_of(
    models: list[str], data: Name | Iterable[Name] = "embedded", out: str | Path = "isoscope-run", *, column: str | None = None, **rest: Any
) -> list[str]:
    """The plan of a measurement in lines; nothing is loaded or written."""
    rest.pop("quiet", None)
    where = {name: rest.pop(name) for name in ("executor", "address", "processes", "split_into") if name in rest}
    spread, planned, count = open_spread(models, data, out, options_from(rest), column, Progress(quiet=True), **where)
    return say(planned, spread.run, count, far=spread.engine.far)
