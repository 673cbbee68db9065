"""One cell to measure, in a form that another process or machine can take, and the ways in which it can fail."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from isoscope.core.errors import IsoscopeError, IsoscopeWarning, is_out_of_memory
from isoscope.core.progress import Progress
from isoscope.core.source import Source
from isoscope.measuring.cell import measure_model
from isoscope.measuring.cell_identity import cell_identity
from isoscope.measuring.named_sources import Sources
from isoscope.measuring.options import Options
from isoscope.models.naming.model_name import ModelReference
from isoscope.runs.run import Run
from isoscope.runs.stored_cell import key_of


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

    @classmethod
    def create(cls, run: Run, reference: ModelReference, sources: Sources, options: Options) -> Task:
        """Plan the cell of a model: find its source and work out the cell's identity."""
        source = sources.for_model(reference, options)
        return cls(run.path, reference, sources, source.modality, options, cell_identity(reference, source, options))

    def create_shard(self, run: Run, i: int, k: int) -> Task:
        """The task that measures shard `i` of `k` of the same cell into another run."""
        options = replace(self.options, shard=(i, k), store="all")  # tables are computed after the merge, and they need the samples
        identity = cell_identity(self.reference, self.source, options)
        return replace(self, run=run.path, options=options, identity=identity, part=True)

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
        """Whether the run holds the cell, with all that is to be kept of it."""
        return Run(self.run).cell(self.key, self.options.store) is not None

    @property
    def with_half_batch(self) -> Task | None:
        """The same task with half the batch size, which changes no number; None if the batch size is 1."""
        half = self.options.batch_size // 2
        return replace(self, options=replace(self.options, batch_size=half)) if half else None


class NoMemoryError(IsoscopeError):
    """A cell did not fit into memory."""


class LostError(IsoscopeError):
    """A process or a machine ended while it measured."""


def out_of_memory(name: str) -> NoMemoryError:
    """The error to raise when the cell of this model did not fit into memory."""
    return NoMemoryError(f"{name} needs more memory than there is; use a smaller --batch-size or --sample, fewer --processes or --layers.")


def run_task(task: Task, progress: Progress, *, check_identity: bool = False) -> None:
    """Measure a cell in this process. `check_identity`: refuse a source that differs from the one that was planned."""
    try:
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
    """Measure a cell in a worker process, where nobody sees warnings, and return their texts."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", IsoscopeWarning)
        run_task(replace(task, sources=_reuse_open_sources(task.sources)), Progress(quiet=True), check_identity=True)
    return [str(warning.message) for warning in caught if issubclass(warning.category, IsoscopeWarning)]


@lru_cache(maxsize=1)
def _reuse_open_sources(sources: Sources) -> Sources:
    """The sources of the previous task if they have the same names, so that a worker opens each source once and not once per task."""
    return sources
