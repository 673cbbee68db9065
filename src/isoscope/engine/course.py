"""The way of a sweep through its checkpoints: each is fetched, one ahead of the other, looked at, measured, and deleted if asked."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isoscope.core.errors import IsoscopeError, IsoscopeWarning
from isoscope.core.named import at_home
from isoscope.core.source import read_by
from isoscope.engine.announce import human
from isoscope.engine.executor import Engine, Executor
from isoscope.engine.ledger import Ledger, stamp_of
from isoscope.engine.measure import Given, cell_identity
from isoscope.engine.options import Options
from isoscope.engine.plan import spoken
from isoscope.engine.progress import Progress
from isoscope.engine.task import Task
from isoscope.engine.workers import how_many
from isoscope.models.audit import Seen, faults, hashes
from isoscope.models.hub import HubName
from isoscope.models.reference import ModelReference, resolve, weight
from isoscope.models.suite import Checkpoint, Suite
from isoscope.models.suites.hub import commit_of, forget, in_cache, is_missing, is_out_of_reach
from isoscope.store.manifest import KEPT, key_of
from isoscope.store.run import Run
from isoscope.store.writing import FullDiskError


@dataclass(frozen=True)
class Stop:
    """One checkpoint of a sweep, and its suite."""

    suite: Suite
    checkpoint: Checkpoint

    @property
    def hub(self) -> HubName | None:
        """Its name on the hub, if that is where it is from."""
        return None if at_home(self.checkpoint.spec).exists() else HubName.parse(self.checkpoint.spec)

    def named(self, reference: ModelReference) -> ModelReference:
        """The checkpoint as a part of its suite."""
        return dataclasses.replace(reference, name=self.suite.name, step=self.checkpoint.step, seed=self.checkpoint.seed)

    def __str__(self) -> str:
        return self.suite.at(self.checkpoint.seed, self.checkpoint.step)


@dataclass(frozen=True)
class Fetched:
    """A checkpoint that is here, and the hashes of its weights."""

    reference: ModelReference
    tensors: str
    matrices: str
    stamp: str
    """Of a local one how its files looked before they were read."""


@dataclass(frozen=True)
class Underway:
    """A checkpoint that is being measured."""

    stop: Stop
    reference: ModelReference
    seen: Seen
    stamp: str
    result: Future[list[str]]


class Course:
    """The way through all checkpoints: fetch (one ahead), measure, delete. Without sources they are loaded and not measured."""

    def __init__(
        self, run: Run, options: Options, given: Given | None, *, delete: bool, progress: Progress, engine: Engine | None = None
    ) -> None:
        self.run, self.options, self.given, self.delete, self.progress = run, options, given, delete, progress
        self.engine = engine or Engine(processes=1)
        self.ledger = Ledger(run.path)
        self.measured = 0
        self.problems: list[str] = []
        self._finished: dict[tuple[Any, ...], list[dict[str, Any]]] = {}  # manifests of what the run held when it started, by place
        self._used: list[tuple[Stop, str]] = []  # with the commit
        self._underway: list[Underway] = []
        self._executor: Executor | None = None

    def go(self, suites: list[Suite]) -> None:
        """Measure what is not measured yet."""
        self.run.prepare()
        stops = [Stop(suite, checkpoint) for suite in suites for checkpoint in suite.checkpoints]
        self._know(self.run)
        done = [self._is_done(stop) for stop in stops]
        left = [stop for stop, there in zip(stops, done, strict=True) if not there]
        used = [stop for stop, there in zip(stops, done, strict=True) if there and self.delete]
        self._used = [(stop, revision) for stop in used if (revision := self._revision(stop))]
        self.measured = len(stops) - len(left)
        if self.measured:
            self.progress.note(f"{self.measured} of {len(stops)} checkpoints are measured already.")
        started, ended = time.monotonic(), 0
        with self.progress.bar("checkpoints", len(stops), "done") as bar, _one_bar(), contextlib.ExitStack() as held:
            bar.advance(self.measured)

            def tell(stop: Stop, done: bool) -> None:
                nonlocal ended
                ended += 1
                ahead = (time.monotonic() - started) / ended * (len(left) - ended)
                said = "done" if done else "left out"
                self.progress.note(f"{stop}: {said}, {ended} of {len(left)}, about {spoken(ahead)} left")
                bar.advance()

            for stop, future in self._fetched(left):
                if not self._visit(stop, future, len(left), held):
                    tell(stop, False)
                while self._underway and (self._executor is None or len(self._underway) >= self._executor.count):
                    tell(*self._collect())
            while self._underway:
                tell(*self._collect())
            self._clear(keep=None)

    def lines(self, suites: list[Suite]) -> list[str]:
        """What of each suite is measured and what is left, and how long it takes, as far as finished cells tell."""
        assert self.given is not None
        self._know(self.run)
        lines, left, known = [], 0, [manifest for own in self._finished.values() for manifest in own if "seconds" in manifest]
        for suite in suites:
            stops = [Stop(suite, checkpoint) for checkpoint in suite.checkpoints]
            done = sum(self._is_done(stop) for stop in stops)
            left += len(stops) - done
            lines.append(f"{suite.name}: {len(stops):,} checkpoints, {done:,} measured already")
        total = f"{left:,} cells to measure"
        if known:
            seconds = sum(float(one["seconds"]) for one in known) / len(known) * left
            memory = max(int(one.get("memory", 0)) for one in known)
            disk = sum(int(file["bytes"]) for one in known for file in one["files"].values()) / len(known) * left
            total += f", about {spoken(seconds)} by one process, {human(memory)} of memory a process, {human(disk)} on disk"
        return [*lines, total]

    def judge(self, suites: list[Suite]) -> list[str]:
        """What is wrong with the suites; it is kept in the run too."""
        said = []
        for suite in suites:
            found = faults(suite, self.ledger.seen(suite))
            self.ledger.judge(suite, found)
            said += found
        return said

    def _is_done(self, stop: Stop) -> bool:
        """Whether a checkpoint was measured with these options, so that it need not be downloaded, nor read while its files look alike."""
        hub = stop.hub
        revision = self.ledger.revision(stop.suite, stop.checkpoint, None if hub else stamp_of(stop.checkpoint.spec))
        if revision is None or (hub is not None and (commit_of(hub) or revision) != revision):
            return False
        if self.given is None:
            return True
        place = (stop.suite.name, stop.checkpoint.step, stop.checkpoint.seed)
        return any(self._same(stop, manifest) for manifest in self._finished.get(place, []) if manifest["columns"]["revision"] == revision)

    def _know(self, run: Run) -> None:
        """The checkpoints that a run holds, by their place; a cell that does not say all that is compared here is measured again."""
        self._finished = {}
        for cell in run.cells():
            match cell.manifest:
                case {
                    "identity": {"checkpoint": {"suite": str(suite), "step": int(step), "seed": int() | None as seed}, "weights": str()},
                    "columns": {"modality": str(), "revision": str()},
                }:
                    self._finished.setdefault((suite, step, seed), []).append(cell.manifest)

    def _revision(self, stop: Stop) -> str | None:
        return self.ledger.revision(stop.suite, stop.checkpoint)

    def _same(self, stop: Stop, manifest: dict[str, Any]) -> bool:
        """Whether a cell of this checkpoint is what would be measured now."""
        assert self.given is not None
        weights, modality = manifest["identity"]["weights"], manifest["columns"]["modality"]
        known = stop.named(ModelReference(stop.checkpoint.spec, "", Path(), None, False, manifest["columns"]["revision"], weights))
        source = self.given.of_modality(stop.suite.name, read_by(modality))
        same = manifest["key"] == key_of(cell_identity(known, source, self.options))
        return same and KEPT.index(manifest["keep"]) >= KEPT.index(self.options.store)

    def _fetched(self, stops: list[Stop]) -> Iterator[tuple[Stop, Future[Fetched]]]:
        """Each checkpoint once it is here, the next one on its way; between two nothing is on its way, and what was used may go."""
        future = self._start(stops[0]) if stops else None
        for i, stop in enumerate(stops):
            assert future is not None
            current = future
            error = current.exception()  # waits
            self._clear(keep=None if error else current.result().reference.revision)
            future = self._start(stops[i + 1]) if i + 1 < len(stops) else None
            yield stop, current

    def _start(self, stop: Stop) -> Future[Fetched]:
        if stop.hub is not None and not in_cache(stop.hub):
            self.ledger.claim(stop.checkpoint.spec)
        return _in_background(lambda: _fetch(stop.checkpoint))

    def _visit(self, stop: Stop, future: Future[Fetched], left: int, held: contextlib.ExitStack) -> bool:
        """Begin to measure a checkpoint, or remember why not; the first that is here tells how many can be measured side by side."""
        try:
            fetched = future.result()
        except IsoscopeError as error:
            if not is_missing(error) and is_out_of_reach(error):
                raise
            return self._leave_out(stop, error)
        reference = stop.named(fetched.reference)
        seen = Seen(stop.checkpoint.seed, stop.checkpoint.step, fetched.tensors, fetched.matrices)
        if self.given is not None:  # before there is a cell, so that none is without it
            self.ledger.see(stop.suite, stop.checkpoint, reference.revision, seen, fetched.stamp)
            if self._executor is None:
                count = 1 if self.engine.far else how_many(self.engine.processes, left, weight(reference), self.options, self.given.specs)
                self._executor = held.enter_context(self.engine.open(count, self.options, self.given, Progress(quiet=True)))
        self._underway.append(Underway(stop, reference, seen, fetched.stamp, self._use(reference)))
        return True

    def _collect(self) -> tuple[Stop, bool]:
        """Wait for a checkpoint that is being measured; which one, and whether it was."""
        wait([one.result for one in self._underway], return_when=FIRST_COMPLETED)
        one = next(one for one in self._underway if one.result.done())
        self._underway.remove(one)
        self._used.append((one.stop, one.reference.revision))
        try:
            said = one.result.result()
        except FullDiskError:
            raise
        except IsoscopeError as error:
            # What every checkpoint would say (no such device, data of another kind, a full disk) is said at once.
            if (self.given is not None and not self.measured and not self._one_goes_well()) or is_out_of_reach(error):
                raise
            return one.stop, self._leave_out(one.stop, error)
        for text in said:
            warnings.warn(text, IsoscopeWarning, stacklevel=2)
        self.ledger.see(one.stop.suite, one.stop.checkpoint, one.reference.revision, one.seen, one.stamp)
        self.measured += 1
        return one.stop, True

    def _one_goes_well(self) -> bool:
        """Whether any of those that are being measured comes to its end."""
        return any(one.result.exception() is None for one in self._underway)  # waits

    def _use(self, reference: ModelReference) -> Future[list[str]]:
        """Measure a checkpoint, in another process where there are some; without sources, load it."""
        o = self.options
        if self.given is None:
            from isoscope.models.load import load

            return _at_once(lambda: load(reference, device="cpu", trust_remote_code=o.trust_remote_code, allow_partial=o.allow_partial))
        assert self._executor is not None
        source = self.given.for_model(reference, o)
        key = key_of(cell_identity(reference, source, o))
        if self.run.cell(key, o.store) is not None:
            return _at_once(lambda: None)
        return self._executor.submit(Task(self.run.path, reference, self.given.specs, self.given.column, self.given.models, o, key))

    def _leave_out(self, stop: Stop, error: IsoscopeError) -> bool:
        self.problems.append(str(error))
        self.progress.note(f"{stop}: {error}")
        self.ledger.see(stop.suite, stop.checkpoint, "", Seen(stop.checkpoint.seed, stop.checkpoint.step, problem=str(error)))
        return False

    def _clear(self, keep: str | None) -> None:
        """Delete what was downloaded here and is not needed any more; `keep` is the commit that comes next, which may be the same."""
        needed = {keep, *(one.reference.revision for one in self._underway)}
        for stop, commit in self._used if self.delete else []:
            if stop.hub is not None and commit not in needed and self.ledger.claimed(stop.checkpoint.spec):
                forget(stop.hub, commit)
                self.ledger.release(stop.checkpoint.spec)
        self._used = [(stop, commit) for stop, commit in self._used if commit in needed]


def _fetch(checkpoint: Checkpoint) -> Fetched:
    stamp = stamp_of(checkpoint.spec)
    reference = resolve(checkpoint.spec)
    return Fetched(reference, *((reference.weights,) * 2 if reference.gguf else hashes(reference.folder)), stamp)


def _at_once(act: Callable[[], object]) -> Future[list[str]]:
    """What is done here and now, as others do it elsewhere."""
    future: Future[list[str]] = Future()
    try:
        act()
        future.set_result([])
    except IsoscopeError as error:
        future.set_exception(error)
    return future


def _in_background(act: Callable[[], Fetched]) -> Future[Fetched]:
    """In a thread that does not outlive the process: an interrupted sweep ends at once."""
    future: Future[Fetched] = Future()

    def work() -> None:
        try:
            future.set_result(act())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return future


@contextlib.contextmanager
def _one_bar() -> Iterator[None]:
    """Without the hub's own bars: that of the checkpoints is enough."""
    from huggingface_hub import utils

    before = utils.are_progress_bars_disabled()  # type: ignore[attr-defined]
    if not before:
        utils.disable_progress_bars()  # type: ignore[attr-defined]
    try:
        yield
    finally:
        if not before:
            utils.enable_progress_bars()  # type: ignore[attr-defined]
