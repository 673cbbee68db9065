"""Measure the checkpoints of trainings: each is fetched, hashed, measured, and deleted if the user asks for that. Report their faults."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from isoscope.core.errors import IsoscopeError, IsoscopeWarning, missing_extras_as_user_errors
from isoscope.core.progress import Progress, without_hub_bars
from isoscope.core.source import source_modality
from isoscope.core.study import studies
from isoscope.core.user_input import Name, expand_home, list_names
from isoscope.measuring.cost_estimate import Cost, Costs, PlanEntry, format_plan
from isoscope.measuring.options import Options, options_from
from isoscope.measuring.scheduler import Engine, Executor, Job, Scheduler
from isoscope.measuring.source_size import guess_tokens
from isoscope.measuring.sweep_log import Ledger, stamp_of
from isoscope.measuring.task import Sources, Task, cell_identity
from isoscope.models.naming.audit import CheckpointRecord, find_faults, tensor_hashes
from isoscope.models.naming.hub_models import HubName
from isoscope.models.naming.hub_suite import commit_of, delete_from_cache, is_cached, is_missing, is_out_of_reach
from isoscope.models.naming.model_name import ModelReference, model_bytes, resolve_model
from isoscope.models.naming.suite import Checkpoint, Suite, open_suites
from isoscope.runs.results import Results
from isoscope.runs.run import Run
from isoscope.runs.stored_cell import KEEP_LEVELS, key_of

TAPS = ("hidden", "attention")
"""The default taps of a sweep: most of what a training shows is how queries and keys move."""
Place = tuple[str, int, int | None]
"""Suite, step and seed."""


@missing_extras_as_user_errors("Measuring checkpoints")
def sweep(
    suites: Name | Iterable[Name],
    data: Name | Iterable[Name] = "embedded",
    out: str | Path = "isoscope-run",
    *,
    steps: str | None = None,
    seeds: str | None = None,
    delete: bool = False,
    processes: int | None = None,
    executor: str = "local",
    address: str | None = None,
    column: str | None = None,
    quiet: bool = False,
    **options: Any,
) -> Results:
    """Measure every checkpoint of one or more trainings and keep it in a run. At the end, faults of the suites become warnings.

    Args:
        suites: folders of checkpoints, patterns of paths, hub repositories or hub revisions with `{step}` (and `{seed}`), or
            `embedded`.
        data: as for `isoscope.measure`.
        out: the run's folder. Checkpoints that it already holds are neither computed nor downloaded again.
        steps: which steps, as they stand in the names: `0,20,40-200:20` or `1-512:x2`; by default all that are listed.
        seeds: which seeds, in the same form.
        delete: remove each checkpoint that this sweep downloaded from the hub's cache once it is measured.
        processes: how many checkpoints to measure in parallel; by default as many as cores and memory allow, if there are enough
            checkpoints and no accelerator.
        executor: `local` for processes of this machine, or `ray` for a cluster.
        address: address of an existing Ray cluster; by default a local one is started.
        column: the field of a .jsonl or .parquet that holds the text.
        quiet: show no progress.
        options: as for `isoscope.measure`, except that `taps` is hidden and attention.

    Returns:
        The run, open. Its `audit.json` holds the faults.
    """
    engine = Engine(executor, address, processes)
    planned = plan_sweep(suites, data, out, steps=steps, seeds=seeds, delete=delete, engine=engine, column=column, quiet=quiet, **options)
    for fault in planned.complete():
        warnings.warn(fault, IsoscopeWarning, stacklevel=2)
    return Results(out)


def plan_sweep(
    suites: Name | Iterable[Name],
    data: Name | Iterable[Name],
    out: str | Path,
    *,
    steps: str | None,
    seeds: str | None,
    delete: bool,
    engine: Engine,
    column: str | None = None,
    quiet: bool,
    **options: Any,
) -> Sweep:
    """Plan a sweep; the arguments are those of `sweep`. Suites are listed, and nothing is loaded, downloaded or written."""
    chosen = options_from({"taps": TAPS} | options)
    if chosen.channels is not None:
        raise IsoscopeError("channels belongs to a torch.nn.Module; models by name bring their own.")
    opened = open_suites(list_names(suites), steps, seeds)
    sources = Sources(tuple(list_names(data)), column, tuple(suite.name for suite in opened))
    engine.check_data(sources.specs)
    return Sweep(opened, Run(out), chosen, sources, delete=delete, progress=Progress(quiet=quiet), engine=engine)


def audit(
    suites: Name | Iterable[Name],
    out: str | Path = "isoscope-run",
    *,
    steps: str | None = None,
    seeds: str | None = None,
    delete: bool = False,
    quiet: bool = False,
    **options: Any,
) -> list[str]:
    """Load every checkpoint and measure none; return the faults of the suites, one sentence each."""
    opened = open_suites(list_names(suites), steps, seeds)
    planned = Sweep(opened, Run(out), options_from(options), None, delete=delete, progress=Progress(quiet=quiet))
    planned.measure()
    return planned.find_faults()


class CheckpointJob(Job):
    """Fetches one checkpoint of a suite and measures it; an audit loads it instead."""

    def __init__(self, sweep: Sweep, suite: Suite, checkpoint: Checkpoint) -> None:
        self.sweep, self.suite, self.checkpoint = sweep, suite, checkpoint
        self.commit: str | None = None
        """The revision of the checkpoint, once it is known."""

    def __str__(self) -> str:
        return self.suite.describe_checkpoint(self.checkpoint.seed, self.checkpoint.step)

    @cached_property
    def hub(self) -> HubName | None:
        """The checkpoint's name on the hub; None for a local one."""
        return None if expand_home(self.checkpoint.spec).exists() else HubName.parse(self.checkpoint.spec)

    def is_done(self) -> bool:
        """Whether the checkpoint was measured with these options. Then it is not downloaded, and not read while its files look the same."""
        stamp = None if self.hub else stamp_of(self.checkpoint.spec)
        self.commit = self.sweep.ledger.revision(self.suite, self.checkpoint, stamp)
        if self.commit is None or (self.hub is not None and (commit_of(self.hub) or self.commit) != self.commit):
            return False
        if self.sweep.sources is None:
            return True
        cells = self.sweep.cells.get((self.suite.name, self.checkpoint.step, self.checkpoint.seed), [])
        return any(self._is_cell(manifest) for manifest in cells if manifest["columns"]["revision"] == self.commit)

    def _is_cell(self, manifest: dict[str, Any]) -> bool:
        """Whether a cell of this checkpoint is the one that would be measured now."""
        assert self.sweep.sources is not None
        weights, modality = manifest["identity"]["weights"], manifest["columns"]["modality"]
        known = self._name(ModelReference(self.checkpoint.spec, "", Path(), None, False, manifest["columns"]["revision"], weights))
        source = self.sweep.sources.of_modality(self.suite.name, source_modality(modality))
        if manifest["key"] != key_of(cell_identity(known, source, self.sweep.options)):
            return False
        return KEEP_LEVELS.index(manifest["keep"]) >= KEEP_LEVELS.index(self.sweep.options.store)

    def _name(self, reference: ModelReference) -> ModelReference:
        """The model under the name of its suite, with its step and seed."""
        return replace(reference, name=self.suite.name, step=self.checkpoint.step, seed=self.checkpoint.seed)

    def prepare_fetch(self) -> None:
        """Note that this sweep downloads the checkpoint, before it does: only such checkpoints may be deleted."""
        if self.hub is not None and not is_cached(self.hub):
            self.sweep.ledger.claim(self.checkpoint.spec)

    def fetch(self) -> None:
        """Download the checkpoint, and hash its weights."""
        # The stamp is taken before the weights are read: a file that changes in between does not match it and is read again next time.
        self.stamp = stamp_of(self.checkpoint.spec)
        self.reference = self._name(resolve_model(self.checkpoint.spec))
        self.commit = self.reference.revision
        whole, matrices = (self.reference.weights,) * 2 if self.reference.gguf else tensor_hashes(self.reference.folder)
        self.seen = CheckpointRecord(self.checkpoint.seed, self.checkpoint.step, whole, matrices)

    def start(self) -> Task | None:
        """The cell of the checkpoint. An audit loads the checkpoint here instead."""
        options, sources = self.sweep.options, self.sweep.sources
        if sources is None:
            from isoscope.models.loading.load import load_model

            remote_code, partial = options.trust_remote_code, options.allow_partial
            load_model(self.reference, device="cpu", trust_remote_code=remote_code, allow_partial=partial)
            return None
        self._record()  # before there is a cell, so that no cell is without an entry in the ledger
        return Task.create(self.sweep.run, self.reference, sources, options)

    def finish(self) -> None:
        """Record the checkpoint."""
        self._record()

    def _record(self) -> None:
        self.sweep.ledger.record(self.suite, self.checkpoint, self.reference.revision, self.seen, self.stamp)

    def fail(self, error: IsoscopeError, *, fetched: bool) -> None:
        """Record the problem and continue, unless every other checkpoint would fail for the same reason."""
        # A hub that does not answer fails every checkpoint; a revision that it does not have fails one.
        hopeless = is_out_of_reach(error) and (fetched or not is_missing(error))
        if fetched and self.sweep.sources is not None and not self.sweep.scheduler.another_job_succeeds():
            hopeless = True  # no such device, or data of another kind
        if hopeless:
            raise error
        self.sweep.problems.append(str(error))
        self.sweep.progress.note(f"{self}: {error}")
        problem = CheckpointRecord(self.checkpoint.seed, self.checkpoint.step, problem=str(error))
        self.sweep.ledger.record(self.suite, self.checkpoint, "", problem)

    def clean_up(self, in_use: Sequence[Job]) -> bool:
        """Delete the download, if this sweep made it and no other job uses the same commit."""
        if self.commit is None or not self.sweep.delete or self.hub is None:
            return True
        if any(isinstance(job, CheckpointJob) and job.commit == self.commit for job in in_use):
            return False
        if self.sweep.ledger.is_claimed(self.checkpoint.spec):
            delete_from_cache(self.hub, self.commit)
            self.sweep.ledger.release(self.checkpoint.spec)
        return True


class Sweep:
    """All checkpoints of some suites, to be measured into a run. Without sources they are loaded and not measured: an audit."""

    def __init__(
        self,
        suites: list[Suite],
        run: Run,
        options: Options,
        sources: Sources | None,
        *,
        delete: bool,
        progress: Progress,
        engine: Engine | None = None,
    ) -> None:
        self.suites, self.run, self.options, self.sources, self.delete, self.progress = suites, run, options, sources, delete, progress
        self.engine = engine or Engine(processes=1)
        self.ledger = Ledger(run.path)
        self.problems: list[str] = []
        self.jobs = [CheckpointJob(self, suite, checkpoint) for suite in suites for checkpoint in suite.checkpoints]
        self.scheduler = Scheduler(self._open_executor, progress)
        self._left = len(self.jobs)

    @cached_property
    def cells(self) -> dict[Place, list[dict[str, Any]]]:
        """The manifests of the checkpoints that the run held at the start. A cell that lacks a field is left out, and measured again."""
        manifests: dict[Place, list[dict[str, Any]]] = {}
        for cell in self.run.cells():
            match cell.manifest:
                case {
                    "identity": {"checkpoint": {"suite": str(suite), "step": int(step), "seed": int() | None as seed}, "weights": str()},
                    "columns": {"modality": str(), "revision": str()},
                }:
                    manifests.setdefault((suite, step, seed), []).append(cell.manifest)
        return manifests

    def complete(self) -> list[str]:
        """Measure what is left, and add what studies derive from a sweep; return the faults of the suites, one sentence each."""
        self.measure()
        faults = self.find_faults()
        if not self.scheduler.succeeded:
            raise IsoscopeError(f"No checkpoint could be measured: {self.problems[0]}")
        for study in studies:
            if study.derive is not None:
                study.derive(self.run.path)
        return faults

    def measure(self) -> None:
        """Measure the checkpoints that are not measured yet."""
        self.run.prepare()
        done = [job for job in self.jobs if job.is_done()]
        finished = set(map(id, done))
        left = [job for job in self.jobs if id(job) not in finished]
        self._left = len(left)
        if done:
            self.progress.note(f"{len(done)} of {len(self.jobs)} checkpoints are measured already.")
        with without_hub_bars():
            self.scheduler.run(left, "checkpoints", done=done)

    def _open_executor(self, task: Task) -> AbstractContextManager[Executor]:
        """Open the executor with the first fetched checkpoint, whose size tells how many fit into memory."""
        count = self.engine.choose_count(self._left, model_bytes(task.reference), self.options, task.sources.specs)
        return self.engine.open(count, self.options, Progress(quiet=True))

    def find_faults(self) -> list[str]:
        """Return the faults of the suites, one sentence each; the run records them too."""
        sentences = []
        for suite in self.suites:
            own = find_faults(suite, self.ledger.records(suite))
            self.ledger.record_faults(suite, own)
            sentences += own
        return sentences

    def describe(self) -> list[str]:
        """The plan in lines: which checkpoints are measured and which are left."""
        costs = Costs((manifest, 1.0) for manifests in self.cells.values() for manifest in manifests)
        entries = []
        for suite in self.suites:
            jobs = [job for job in self.jobs if job.suite is suite]
            done = sum(job.is_done() for job in jobs)
            left = len(jobs) - done
            cost = self._cost(suite, costs, left) if left else None
            entries.append(PlanEntry(f"{suite.name}: {len(jobs):,} checkpoints, {done:,} measured already", len(jobs), left, cost))
        return format_plan(entries, self.engine.processes, remote=self.engine.is_remote)

    def _cost(self, suite: Suite, costs: Costs, left: int) -> Cost | None:
        """The cost of the checkpoints of a suite that are left; None if nothing is measured yet and they are not on this machine."""
        if self.cells:
            return costs.estimate(1.0, cells=left)
        last = suite.checkpoints[-1].spec
        if self.sources is None or not expand_home(last).exists():
            return None
        # The checkpoints of a training have one architecture: the last one stands for all.
        reference, options = resolve_model(last), self.options
        source = self.sources.for_model(replace(reference, name=suite.name), options)
        guess = partial(guess_tokens, source, reference, options.max_items, options.max_tokens)
        return costs.estimate(1.0, model_bytes(reference), left, guess, attention=options.attention)
