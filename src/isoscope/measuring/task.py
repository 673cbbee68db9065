"""One cell to measure, in a form that another process or machine can take: its model, its source, its identity, and how it can fail."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from isoscope.core.errors import IsoscopeError, IsoscopeWarning, is_out_of_memory
from isoscope.core.model_groups import UNTRAINED
from isoscope.core.progress import Progress
from isoscope.core.source import Source, part_of
from isoscope.measuring.cell import measure_model
from isoscope.measuring.options import TEXT_BATCH_ON_CPU, Options
from isoscope.measuring.pooling import declared_pooling
from isoscope.models.naming.model_name import ModelReference, hash_tokenizer
from isoscope.runs.merging import merge_identities, merge_shards
from isoscope.runs.run import Run
from isoscope.runs.stored_cell import key_of
from isoscope.sources import open_source


@dataclass(frozen=True)
class Sources:
    """The sources that `--data` names, each opened once, and which of them each model reads.

    Two objects are equal if they name the same sources. Only the names are sent to another process, which opens the sources itself.
    """

    specs: tuple[str, ...]
    column: str | None
    models: tuple[str, ...]
    """Names of models, for which `NAME=SOURCE` may give a source of their own."""
    # What was opened is no part of the name: two sources are equal before and after they are read.
    _opened: dict[tuple[str, str], Source] = field(default_factory=dict, compare=False, repr=False)
    _modalities: dict[tuple[bytes, bool | tuple[str, ...]], str] = field(default_factory=dict, compare=False, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return Sources, (self.specs, self.column, self.models)

    @cached_property
    def _by_model(self) -> dict[str, str]:
        parts = (spec.partition("=") for spec in self.specs)
        return {model: spec for model, equals, spec in parts if equals and model in self.models}

    def for_model(self, reference: ModelReference, options: Options) -> Source:
        """The source that a model reads: the one named for it, or the first of its modality."""
        return self.of_modality(reference.name, self._modality_of(reference, options))

    def _modality_of(self, reference: ModelReference, options: Options) -> str:
        """The modality that a model reads. The checkpoints of a training share one configuration, so it is worked out once for all."""
        from isoscope.models.loading.load import family_for  # imports torch, which a sweep that is finished does not need

        config = reference.folder / "config.json"
        if reference.gguf or reference.whisper or not config.is_file():
            return family_for(reference, trust_remote_code=options.trust_remote_code).source
        key = config.read_bytes(), options.trust_remote_code
        if key not in self._modalities:
            self._modalities[key] = family_for(reference, trust_remote_code=options.trust_remote_code).source
        return self._modalities[key]

    def of_modality(self, model: str, modality: str) -> Source:
        """The source of this modality that a model of this name reads."""
        name = model.removeprefix(UNTRAINED)
        if name in self._by_model:
            candidates = [self._by_model[name]]
        else:
            shared = [spec for spec in self.specs if spec.partition("=")[0] not in self._by_model] or ["embedded"]
            # The embedded source serves every modality, so it comes last: it must not hide a source that the user named.
            candidates = sorted(shared, key=lambda spec: spec == "embedded")
        problem: IsoscopeError | None = None
        for spec in candidates:
            try:
                source = self._open(spec, modality)
            except IsoscopeError as error:
                problem = problem or error
                continue
            if source.modality == modality:
                return source
        raise problem or IsoscopeError(
            f"{model} reads {modality}, and {', '.join(candidates)} {'holds' if len(candidates) == 1 else 'hold'} none; add --data with "
            f"{modality}, or --data embedded."
        )

    def _open(self, spec: str, modality: str) -> Source:
        if (spec, modality) not in self._opened:
            self._opened[spec, modality] = open_source(spec, self.column, modality)
        return self._opened[spec, modality]


def cell_identity(reference: ModelReference, source: Source, options: Options) -> dict[str, Any]:
    """The identity of a cell: everything that determines its statistics, and nothing else."""
    part = part_of(source, options.shard, limited=options.max_tokens is not None or options.max_items is not None)
    # A shard knows its own bytes only. The blocks of all shards make the fingerprint of the source when they are merged.
    content = {"source": source.fingerprint} if part is None else {"source": part.layout, "block_hashes": part.blocks}
    identity = {"weights": reference.weights, **content, "shard": list(options.shard), **options.identity()}
    if options.tokenizer is not None:
        identity["tokenizer"] = hash_tokenizer(options.tokenizer)
    if options.pool == "own" and (declared := declared_pooling(reference.folder)) is not None:
        identity["own_pooling"] = str(declared)  # its file is not among those that are hashed with the weights
    if reference.step is None:
        return identity
    # Two steps with equal weights are still two checkpoints, and the table must show that fault: the step belongs to the identity.
    return identity | {"checkpoint": {"suite": reference.name, "step": reference.step, "seed": reference.seed}}


@dataclass(frozen=True)
class Task:
    """One model and one shard of its source, to be measured into a run."""

    run: Path
    reference: ModelReference
    sources: Sources
    modality: str
    """The modality that the model reads. It decides which of the sources is measured."""
    options: Options
    identity: dict[str, Any]
    """The identity that the cell must get, as the planning process worked it out."""
    part: bool = False
    """Whether the cell is a shard that is merged with others before anybody reads it. It then gets statistics, but no tables."""
    merges: tuple[str, ...] = ()
    """The keys of the cells of the same run that are merged into this one; empty for a cell that is measured."""

    @classmethod
    def create(cls, run: Run, reference: ModelReference, sources: Sources, options: Options) -> Task:
        """Plan the cell of a model: find its source and work out the cell's identity."""
        source = sources.for_model(reference, options)
        return cls(run.path, reference, sources, source.modality, options, cell_identity(reference, source, options))

    def create_shard(self, run: Run, i: int, k: int) -> Task:
        """The task that measures shard `i` of `k` of the same cell into another run."""
        options = replace(self.options, shard=(i, k), store="all")  # tables are computed after the merge, and need the samples
        identity = cell_identity(self.reference, self.source, options)
        return replace(self, run=run.path, options=options, identity=identity, part=True)

    @classmethod
    def merging(cls, tasks: list[Task]) -> Task:
        """The task that merges the cells of these tasks, which are shards of one cell, and then deletes them."""
        return replace(tasks[0], identity=merge_identities([task.identity for task in tasks]), merges=tuple(task.key for task in tasks))

    @property
    def key(self) -> str:
        """The key of the cell."""
        return key_of(self.identity)

    @property
    def source(self) -> Source:
        """The source that is measured, which is opened at most once per process."""
        return self.sources.of_modality(self.reference.name, self.modality)

    @property
    def is_done(self) -> bool:
        """Whether the run holds the cell, with everything that is to be stored."""
        return Run(self.run).cell(self.key, self.options.store) is not None

    @property
    def with_half_batch(self) -> Task | None:
        """The same task with half the batch size (of the smallest default), which changes no number; None if the batch size is 1."""
        half = (self.options.batch_size or TEXT_BATCH_ON_CPU) // 2
        return replace(self, options=replace(self.options, batch_size=half)) if half else None


class NoMemoryError(IsoscopeError):
    """A cell did not fit into memory."""


class LostError(IsoscopeError):
    """A process or a machine ended while it measured."""


def out_of_memory(name: str) -> NoMemoryError:
    """The error to raise when the cell of this model did not fit into memory."""
    return NoMemoryError(f"{name} needs more memory than there is; use a smaller --batch-size or --sample, fewer --processes or --layers.")


def _merge_cells(task: Task) -> None:
    """Merge the cells that a task names, and delete them once the merged cell is written."""
    run = Run(task.run)
    cells = [cell for key in task.merges if (cell := run.cell(key, "all")) is not None]
    if not task.is_done:
        if lost := len(task.merges) - len(cells):
            raise IsoscopeError(
                f"{lost} of {len(task.merges)} shards of {task.reference.name} were deleted from {task.run} before they were merged; "
                "run the same command again."
            )
        merge_shards(run, cells, keep="all", partial=True)
    for cell in cells:
        run.remove(cell)


def run_task(task: Task, progress: Progress, *, check_identity: bool = False) -> None:
    """Measure a cell, or merge cells into it, in this process. `check_identity`: refuse another source than the one that was planned."""
    try:
        if task.merges:
            return _merge_cells(task)
        # A process on another machine may find other data under the same name, and its cell would get a key that is not its own.
        if check_identity and key_of(cell_identity(task.reference, task.source, task.options)) != task.key:
            raise IsoscopeError(
                f"{task.source.name} is not the same here as where {task.reference.name} was planned; copy it to every node."
            )
        measure_model(Run(task.run), task.reference, task.source, task.options, progress, part=task.part, identity=task.identity)
    except Exception as error:
        if is_out_of_memory(error):
            raise out_of_memory(task.reference.name) from error
        raise


def run_task_in_worker(task: Task) -> list[str]:
    """Measure a cell in a worker process and return the texts of its warnings, which nobody would see there."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", IsoscopeWarning)
        run_task(replace(task, sources=_reuse_open_sources(task.sources)), Progress(quiet=True), check_identity=True)
    return [str(warning.message) for warning in caught if issubclass(warning.category, IsoscopeWarning)]


@lru_cache(maxsize=1)
def _reuse_open_sources(sources: Sources) -> Sources:
    """Return the sources of the previous task if they have the same names. A worker then opens each source once, not once per task."""
    return sources
