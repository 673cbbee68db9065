"""One cell to be measured, in words that another process or machine understands, and how it can fail."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from isoscope.core.errors import IsoscopeError, IsoscopeWarning
from isoscope.core.memory import is_out_of_memory
from isoscope.engine.measure import Given, cell_identity, measure_model
from isoscope.engine.options import Options
from isoscope.engine.progress import Progress
from isoscope.models.model_name import ModelReference
from isoscope.store.manifest import key_of
from isoscope.store.run import Run


@dataclass(frozen=True)
class Task:
    """One model and one shard of its source, to be measured into a run."""

    run: Path
    reference: ModelReference
    data: tuple[str, ...]
    column: str | None
    models: tuple[str, ...]
    options: Options
    key: str = ""
    """The key that its cell must have, where whoever asks knows it."""
    part: bool = False
    """Whether it is merged with others before anybody reads it, so that it needs statistics and no tables."""

    @property
    def smaller(self) -> Task | None:
        """The same with half the batch, which moves no number; None where there is nothing left to halve."""
        half = self.options.batch_size // 2
        return replace(self, options=replace(self.options, batch_size=half)) if half else None


class NoMemoryError(IsoscopeError):
    """A cell that did not fit."""


class LostError(IsoscopeError):
    """A process or a machine that ended while it measured."""


def out_of_memory(name: str) -> NoMemoryError:
    """What to say where a cell did not fit."""
    return NoMemoryError(f"{name} needs more memory than there is; use a smaller --batch-size or --sample, fewer --processes or --layers.")


def carry_out(task: Task, progress: Progress, given: Given) -> None:
    """Measure a cell here, from sources that are open already."""
    try:
        source = given.for_model(task.reference, task.options)
        if task.key and task.key != key_of(cell_identity(task.reference, source, task.options)):
            raise IsoscopeError(f"{source.name} is not the same here as where {task.reference.name} was planned; copy it to every node.")
        measure_model(Run(task.run), task.reference, source, task.options, progress, part=task.part)
    except Exception as error:
        if is_out_of_memory(error):
            raise out_of_memory(task.reference.name) from error
        raise


def recorded(task: Task) -> list[str]:
    """The same where nobody sees warnings: what was warned of."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", IsoscopeWarning)
        carry_out(task, Progress(quiet=True), _given(task.data, task.column, task.models))
    return [str(one.message) for one in found if issubclass(one.category, IsoscopeWarning)]


@lru_cache(maxsize=1)
def _given(data: tuple[str, ...], column: str | None, models: tuple[str, ...]) -> Given:
    return Given(list(data), column, list(models))
