"""Measure models that are named one by one: plan their cells, run those that are not finished, in shards if asked, and merge them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isoscope.core.errors import IsoscopeError, missing_extras_as_user_errors
from isoscope.core.model_groups import UNTRAINED
from isoscope.core.progress import Progress
from isoscope.core.user_input import Name, list_names
from isoscope.core.wording import format_bytes
from isoscope.measuring.cost_estimate import Costs, PlanEntry, format_plan
from isoscope.measuring.merge_tree import FAN_IN, MergeNode, order_of_work, plan_merges
from isoscope.measuring.options import OF_A_MODULE, Options, options_from
from isoscope.measuring.scheduler import Engine, Job, Scheduler
from isoscope.measuring.source_size import guess_tokens
from isoscope.measuring.task import Sources, Task
from isoscope.models.naming.model_name import ModelReference, model_bytes, resolve_model
from isoscope.runs.merging import merge_shards
from isoscope.runs.results import Results
from isoscope.runs.run import Run

if TYPE_CHECKING:
    from torch.nn import Module

SHARDS = "parts"
"""The folder within a run that holds shards until they are merged. It is a separate run, which no table reads."""


@missing_extras_as_user_errors("Measuring a model")
def measure(
    models: Name | Iterable[Name] | Module,
    data: Name | Iterable[Any] = "embedded",
    out: str | Path = "isoscope-run",
    *,
    column: str | None = None,
    quiet: bool = False,
    executor: str = "local",
    address: str | None = None,
    processes: int | None = None,
    split_into: int | None = None,
    feed: Callable[[Any, Any], object] | None = None,
    blocks: str | None = None,
    name: str | None = None,
    tokenizer: Any = None,
    processor: Any = None,
    **options: Any,
) -> Results:
    """Measure the geometry of every layer of one or more models and keep it in a run.

    Args:
        models: a folder, a .gguf file or a hub id (`org/name@revision`); `untrained:` before it means the same architecture
            at initialisation. Or a model of transformers with its `tokenizer` or `processor`, or a `SentenceTransformer`, as it is in
            memory. Or any `torch.nn.Module`, with batches as `data`.
        data: `embedded`, files, folders or globs of text, clips or images, `-`, or `hf:…`. If there are several, each model reads the
            first one of its modality; `NAME=SOURCE` is for the model of that name alone.
            For a module: batches, each a tensor, a tuple of arguments or a dict of them. Every row is an item; an `attention_mask`
            excludes padding.
        out: the run's folder. Cells that it already holds are not computed again.
        column: the field of a .jsonl or .parquet that holds the text.
        quiet: show no progress.
        executor: `local` for processes of this machine, or `ray` for a cluster.
        address: address of an existing Ray cluster; by default a local one is started.
        processes: how many cells to measure in parallel; by default as many as cores and memory allow, if there are enough cells.
        split_into: split each source into this many shards, measure them in parallel and merge them; a single model with several
            `processes` is split into that many.
        feed: for a module, `feed(module, batch)` runs a batch; by default the module is called with it.
        blocks: for a module, the paths of its blocks, as in `layers.*`; by default the largest repeated structure.
        name: for a module, its name in the table; by default its class.
        tokenizer: the tokenizer of a model in memory, or the folder of one for models by name that come without.
        processor: the object that prepares images or clips for a model in memory.
        channels: for a module, whether the channels of its maps come `first` or `last`; by default this is taken from the layers that
            read and make a map.
        options: those of the command line, with underscores: `max_tokens`, `seq_len`, `layers`, `shard`, …

    Returns:
        The run, open: `.table()` and `.series()`.
    """
    if isinstance(tokenizer, str | Path):
        options["tokenizer"], tokenizer = str(tokenizer), None
    chosen, progress = options_from(options), Progress(quiet=quiet)
    if not isinstance(models, str) and hasattr(models, "named_modules"):
        from isoscope.measuring.model_object import measure_object, takes_sources
        from isoscope.measuring.module_feeder import measure_module

        if "tokenizer" in options:
            raise IsoscopeError(
                f"A model in memory takes the tokenizer itself, as AutoTokenizer.from_pretrained gives it; got {options['tokenizer']!r}."
            )
        others: dict[str, object] = {"address": address, "processes": processes, "split_into": split_into, "executor": executor != "local"}
        if takes_sources(models, data, tokenizer, processor):
            others |= {"feed": feed, "blocks": blocks}
            if unfit := [name for name, value in others.items() if value]:
                raise IsoscopeError(f"The option {unfit[0]!r} does not apply to a model in memory with its tokenizer.")
            inputs = {"tokenizer": tokenizer, "processor": processor}
            measure_object(models, data, Run(out), chosen, progress, given=options, name=name, column=column, **inputs)
            return Results(out)
        for option in [*options, *(name for name, value in (others | {"column": column}).items() if value)]:
            if option not in OF_A_MODULE:
                raise IsoscopeError(f"The option {option!r} does not apply to a module: batches are measured as they come, all of them.")
        measure_module(models, data, Run(out), chosen, progress, feed=feed, blocks=blocks, name=name)
        return Results(out)
    if any(value is not None for value in (feed, blocks, name, tokenizer, processor, chosen.channels)):
        raise IsoscopeError(
            "feed, blocks, channels, name, tokenizer and processor belong to a model in memory; models by name bring their own."
        )
    names = list_names(models)
    if not names:
        raise IsoscopeError("Name at least one model: a folder, a .gguf file or a hub id.")
    measurement = Measurement(names, data, out, chosen, Engine(executor, address, processes, split_into), column)
    measurement.run.prepare()
    reasons = measurement.measure(progress)
    if reasons:
        # If every model failed for one reason, such as a device that is not there, that reason is the whole message.
        alike = len(reasons) == len(measurement.models) and len({str(reason) for reason in reasons.values()}) == 1
        raise next(iter(reasons.values())) if alike else UnfinishedError(reasons, len(measurement.models))
    return Results(out)


def describe_measurement(
    models: list[str],
    data: Name | Iterable[Name] = "embedded",
    out: str | Path = "isoscope-run",
    *,
    column: str | None = None,
    executor: str = "local",
    address: str | None = None,
    processes: int | None = None,
    split_into: int | None = None,
    quiet: bool = True,
    **options: Any,
) -> list[str]:
    """The plan of a measurement in lines; the arguments are those of `measure`. Nothing is loaded or written."""
    return Measurement(models, data, out, options_from(options), Engine(executor, address, processes, split_into), column).describe()


class UnfinishedError(IsoscopeError):
    """Some models were measured and some were not. `reasons`: the error of each that was not, by the name that the user gave."""

    code = 1

    def __init__(self, reasons: dict[str, IsoscopeError], models: int) -> None:
        listed = " ".join(f"{spec}: {reason}" for spec, reason in reasons.items())
        failed = len(reasons)
        again = f"Run the same command again to retry the other {failed if failed > 1 else 'one'}."
        super().__init__(f"{models - failed} of {models} models were measured. {again} {listed}")
        self.reasons = reasons


@dataclass
class PlannedModel:
    """One model: the task that measures its cell, or the tasks that measure shards of it."""

    task: Task
    shards: Sequence[Task]
    """Empty if the cell is measured in one piece."""
    merges: Sequence[MergeNode]
    """The cells that are merged last; empty if there are no shards."""
    done: bool
    pending: set[str] = field(default_factory=set)
    """The keys of the cells that are not measured yet."""
    error: IsoscopeError | None = None
    """The first reason for which it was not measured."""

    @property
    def cells(self) -> int:
        """How many cells are measured for it."""
        return len(self.shards) or 1

    @property
    def weights(self) -> int:
        """The bytes of its weights."""
        return model_bytes(self.task.reference)

    @property
    def size(self) -> float:
        """The part of its cost that is known before: weights times items."""
        return float(self.weights) * (self.task.options.max_items or 1)

    def merge_shards(self) -> None:
        """Merge the shards into the cell, and delete them once it is written."""
        run, parts = Run(self.task.run), Run(self.shards[0].run)
        cells = [cell for node in self.merges if (cell := parts.cell(node.task.key, "all")) is not None]
        # Shards are deleted only after the merged cell is on disk. A command that was stopped in between finds the cell and deletes them.
        if not self.task.is_done:
            merge_shards(run, cells, keep=self.task.options.store)
        for node in (node for root in self.merges for node in root.all_nodes()):
            if (cell := parts.cell(node.task.key)) is not None:
                parts.remove(cell)

    def plan_entry(self, costs: Costs) -> PlanEntry:
        """The model as an entry of a plan."""
        limit = self.task.options.max_items  # nobody knows how many items a source has before it is read
        items = "items not counted" if limit is None else f"{limit:,} items"
        cells = f"{len(self.shards)} shards" if self.shards else "1 cell"
        text = f"{self.task.reference.name}: {cells} of {self.task.source.name}, {items}, {format_bytes(self.weights)} of weights"
        if self.done:
            return PlanEntry(f"{text}; measured already", self.cells, 0)
        task, options = self.task, self.task.options
        guess = partial(guess_tokens, task.source, task.reference, options.max_items, options.max_tokens)
        cost = costs.estimate(self.size, self.weights, tokens=guess, attention=options.attention)
        return PlanEntry(text, self.cells, self.cells, cost)


class ModelJob(Job):
    """Measures a model or one shard of it, or merges some shards; the last one that is finished merges what is left."""

    def __init__(self, task: Task, model: PlannedModel) -> None:
        self.task, self.model = task, model

    def __str__(self) -> str:
        i, k = self.task.identity["shard"]
        shards = f"merging {len(self.task.identity['shards'])} shards" if self.task.merges else f"shard {i + 1}/{k}"
        return self.task.reference.name + (f", {shards}" if k > 1 else "")

    def is_ready(self) -> bool:
        """Whether the cells that it merges are there."""
        return self.model.pending.isdisjoint(self.task.merges)

    def start(self) -> Task:
        """The cell of the model, of a shard, or of merged shards."""
        if self.model.error is not None and not self.is_ready():
            raise self.model.error
        return self.task

    def finish(self) -> None:
        """Merge the shards if this was the last one."""
        self.model.pending.discard(self.task.key)
        if self.task.part and not self.model.pending:
            self.model.merge_shards()

    def fail(self, error: IsoscopeError, *, fetched: bool) -> None:
        """Remember the first reason for which the model was not measured."""
        self.model.error = self.model.error or error


class Measurement:
    """The plan of a measurement of models into a run. All names are looked up first, so a misspelt last name costs nothing."""

    def __init__(
        self, models: Iterable[str], data: Name | Iterable[Name], out: str | Path, options: Options, engine: Engine, column: str | None
    ) -> None:
        references = [resolve_model(name, seed=options.seed) for name in models]
        self.run, self.options, self.engine = Run(out), options, engine
        model_names = tuple(reference.name.removeprefix(UNTRAINED) for reference in references)
        self.sources = Sources(tuple(list_names(data)), column, model_names)
        engine.check_data(self.sources.specs)
        self.models = self._plan(references)
        left = [model for model in self.models if not model.done]
        heaviest = max((model.weights for model in left), default=0)
        self.count = engine.choose_count(sum(model.cells for model in left), heaviest, options, self.sources.specs)

    def _plan(self, references: list[ModelReference]) -> list[PlannedModel]:
        """Each model once, in the order given. A single model is divided into shards if several processes are asked for."""
        engine, options = self.engine, self.options
        if engine.split_into is not None and options.shard != (0, 1):
            raise IsoscopeError("--shard measures one part and --split-into all of them; name one of the two.")
        # By key: two names of one model, such as a folder and its hub id, are one cell and measured once.
        tasks = {task.key: task for task in (Task.create(self.run, reference, self.sources, options) for reference in references)}
        done = {key for key, task in tasks.items() if task.is_done}
        wanted = engine.split_into or 1
        if engine.split_into is None and len(tasks) - len(done) == 1 and options.shard == (0, 1) and "-" not in self.sources.specs:
            wanted = engine.processes or 1
        shard_run = self.run.within(SHARDS)
        models = []
        for key, task in tasks.items():
            k = min(wanted, options.max_items or wanted)  # a shard without items could not be measured
            shards = [task.create_shard(shard_run, i, k) for i in range(k)] if k > 1 else []
            # On a cluster every cell comes to this process anyway, and other nodes may not see it.
            merges = plan_merges(shards, k if engine.is_remote else FAN_IN) if shards else []
            models.append(PlannedModel(task, shards, merges, key in done))
        return models

    def measure(self, progress: Progress) -> dict[str, IsoscopeError]:
        """Measure the models that are not done; return the errors of those that failed, by the names that the user gave."""
        jobs = []
        for model in self.models:
            if model.done:
                progress.note(f"{model.task.reference.name}: already measured ({model.task.key}).")
                continue
            tasks = [node.task for node in order_of_work(model.merges)] if model.shards else [model.task]
            # If an earlier command measured all shards and was stopped before it merged them, a job that is done has them merged.
            tasks = tasks or [model.merges[0].task]
            model.pending = {task.key for task in tasks}
            jobs += [ModelJob(task, model) for task in tasks]
        # A model that is measured in this process shows a bar of its own; processes show one bar for all of them.
        quiet = Progress(quiet=True)
        alone = self.count == 1 and not self.engine.is_remote
        scheduler = Scheduler(
            lambda task: self.engine.open(self.count, self.options, progress if alone else quiet), quiet if alone else progress
        )
        scheduler.run(jobs, "cells")
        return {model.task.reference.spec: model.error for model in self.models if model.error is not None}

    def describe(self) -> list[str]:
        """The plan in lines."""
        costs = Costs((cell.manifest, m.size) for m in self.models if m.done and (cell := self.run.cell(m.task.key)) is not None)
        return format_plan([model.plan_entry(costs) for model in self.models], self.count, remote=self.engine.is_remote)
