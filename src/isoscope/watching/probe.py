"""One look at a model in training: the batches that it gets every time, and the cell that a look writes."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd
from torch import Tensor

from isoscope.core.errors import IsoscopeError
from isoscope.core.site import ATTENTION_KINDS
from isoscope.core.table import TABLE_COLUMNS, concat_tables
from isoscope.measuring.module_feeder import STACK, ModuleFeeder, copy_batch
from isoscope.measuring.single_pass import Pass
from isoscope.runs.rows import tables
from isoscope.runs.run import Run
from isoscope.runs.stored_cell import key_of
from isoscope.watching.projections import Projections, find_projections

OF_STATES = ["mean_cosine", "drift_ratio", "mean_norm", "effective_rank", "top_share", "two_nn"]
OF_ATTENTION = ["mean_cosine", "drift_ratio", "qk_cosine", "qk_dot", "attention_entropy", "attention_entropy_normalised", "attention_max"]
"""The metrics of a watched step, for states and for heads: together they cost less than two steps of training."""
LEAN = {"taps": "hidden,attention", "sample": 1024, "store": "rows"}
"""The options of a watched step, unless the user chooses others."""


class Probe:
    """A copy of the user's batches, and the pass that runs them through the module."""

    def __init__(self, feeder: ModuleFeeder, data: Any, *, attention_is_asked_for: bool) -> None:
        self._feeder, self._pass, self._batches = feeder, Pass(feeder, feeder.options), _copy_batches(data)
        self._strict = attention_is_asked_for
        self.projections: Projections = {}
        """The weights that make queries and keys, known after the first look."""
        self.notes: dict[str, str] = {}
        """Notes for the user on how the module is measured."""

    def look(self, run: Run, step: int, seed: int | None) -> pd.DataFrame:
        """Measure the module as it is now and write the cell of this step; returns its rows."""
        started = time.monotonic()
        first = not self._pass.is_ready
        device = next((parameter.device for parameter in self._feeder.module.parameters()), None)
        self._feeder.restart()
        if self._pass.is_ready:
            self._pass.empty()
        try:
            # Copies, because a module may write into its input, and every look must see the same probe.
            for batch in self._batches:
                self._add(copy_batch(batch, device))
            if first and self._pass.attention is not None:
                batch = copy_batch(self._batches[0], device)
                self.projections = find_projections(self._pass, lambda: self._feeder.run(batch), STACK)
            return self._write(run, step, seed, started)
        finally:
            if self._pass.is_ready:
                self._pass.statistics.clear()  # nothing of a look stays in memory until the next one, not even of one that failed

    def _add(self, batch: Any) -> None:
        """Run one batch; if attention was not asked for and cannot be followed, continue without it."""
        if self._pass.is_ready or self._strict:
            self._pass.reduce(self._feeder.batch(batch))
            return
        try:
            # A copy again: if attention cannot be followed, the same batch is measured once more without it.
            self._pass.reduce(self._feeder.batch(copy_batch(batch)))
        except IsoscopeError as error:
            before = self._feeder
            options = dataclasses.replace(before.options, taps=("hidden",))
            self._feeder = ModuleFeeder(before.module, before.name, options, before.feed, before.blocks)
            self._pass = Pass(self._feeder, options)
            self._pass.reduce(self._feeder.batch(batch))
            self.notes["attention"] = f"{before.name} is watched without its attention, as with taps='hidden': {error}"

    def _write(self, run: Run, step: int, seed: int | None, started: float) -> pd.DataFrame:
        feeder, options = self._feeder, self._feeder.options
        # Hashing the weights would cost as much as all else: the training and the step identify a cell.
        weights = f"{feeder.name}{'' if seed is None else f' seed {seed}'} step {step}, watched"
        identity, columns = feeder.identity(weights), feeder.columns(None, step, seed)
        key = key_of(identity)
        spec = feeder.spec(weights) | self._pass.marks() | {"cell": key}
        statistics = self._pass.finish()
        parts = []
        for names, attends in ((OF_STATES, False), (OF_ATTENTION, True)):
            of_kind = {site: kept for site, kept in statistics.items() if (site.kind in ATTENTION_KINDS) is attends}
            parts.append(tables(of_kind, columns, spec, names=names, layers=options.layers)[0])
        rows = concat_tables(parts, TABLE_COLUMNS)
        seconds = round(time.monotonic() - started, 3)
        run.write_cell(identity, columns, spec, rows, statistics=statistics, keep=options.store, replace=True, seconds=seconds)
        return rows


def _copy_batches(data: Any) -> list[Any]:
    """Return the probe as a list of copied batches, which no other code can change."""
    if data is None:
        raise IsoscopeError("isoscope.watch needs data: a batch as the model is called with it, or a list of batches.")
    is_batch = isinstance(data, Tensor | Mapping | tuple)
    if not is_batch and (isinstance(data, str | bytes) or not isinstance(data, Iterable)):
        raise IsoscopeError(f"data is a batch (a tensor, a tuple, a dict) or a list of batches; got {type(data).__name__}.")
    batches = [copy_batch(batch) for batch in ([data] if is_batch else data)]
    if not batches:
        raise IsoscopeError("There was no batch: data is empty, or an iterator that was read before.")
    return batches
