"""One look at a model in training: the batches that it is shown every time, and the cell that comes of it."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import pandas as pd
from torch import Tensor

from isoscope.core.errors import IsoscopeError
from isoscope.core.site import ATTENTION
from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, stacked, tidy
from isoscope.engine.module_pass import STACK, ModulePass, copied
from isoscope.engine.rows import tables
from isoscope.engine.watching.projections import Found, find_projections
from isoscope.store.cell import packed
from isoscope.store.manifest import key_of, manifest_of
from isoscope.store.run import Run

OF_STATES = ["mean_cosine", "drift_ratio", "mean_norm", "effective_rank", "top_share", "two_nn"]
OF_ATTENTION = ["mean_cosine", "drift_ratio", "qk_cosine", "qk_dot", "attention_entropy", "attention_entropy_normalised", "attention_max"]
"""What is computed at a watched step, of states and of heads: all of it costs less than two steps of training."""
LEAN = {"taps": "hidden,attention", "sample": 1024, "store": "rows"}
"""The options of a watched step, where the user does not choose others."""


class Probe:
    """Batches of its own, and the pass that runs them through the module."""

    def __init__(self, one: ModulePass, data: Any, *, attention_is_asked_for: bool) -> None:
        self._pass, self._batches = one, _batches(data)
        self._strict = attention_is_asked_for
        self.projections: Found = {}
        """What makes queries and keys, known after the first look."""
        self.said: dict[str, str] = {}
        """What the user should know of how the module is measured."""

    def look(self, run: Run, step: int, seed: int | None) -> pd.DataFrame:
        """Measure the module as it is now and write the cell of this step; its rows."""
        started = time.monotonic()
        first = self._pass.sites is None
        device = next((parameter.device for parameter in self._pass.module.parameters()), None)
        self._pass.restart()
        try:
            for batch in self._batches:
                self._add(copied(batch, device))
            sites = self._pass.sites
            if first and sites is not None and sites.attention is not None:
                batch = copied(self._batches[0], device)
                self.projections = find_projections(sites, lambda: self._pass.run(batch), STACK)
            return self._write(run, step, seed, started)
        finally:
            if self._pass.sites is not None:
                self._pass.sites.statistics.clear()  # nothing of a look is held until the next one, not even of one that failed

    def _add(self, batch: Any) -> None:
        """Run one batch; where attention was not asked for and cannot be followed, go on without it."""
        if self._pass.sites is not None or self._strict:
            self._pass.add(batch)
            return
        try:
            self._pass.add(copied(batch))
        except IsoscopeError as error:
            one = self._pass
            self._pass = ModulePass(one.module, one.name, dataclasses.replace(one.options, taps=("hidden",)), one.feed, one.blocks)
            self._pass.add(batch)
            self.said["attention"] = f"{one.name} is watched without its attention, as with taps='hidden': {error}"

    def _write(self, run: Run, step: int, seed: int | None, started: float) -> pd.DataFrame:
        one, options = self._pass, self._pass.options
        # Hashing the weights would cost as much as all else: a cell is known by the training and the step.
        weights = f"{one.name}{'' if seed is None else f' seed {seed}'} step {step}, watched"
        identity, columns = one.identity(weights), one.columns(None, step, seed)
        key = key_of(identity)
        spec = one.spec(weights) | {"cell": key}
        sites = one.ordered_statistics()
        parts = []
        for names, attends in ((OF_STATES, False), (OF_ATTENTION, True)):
            own = {site: kept for site, kept in sites.items() if (site.kind in ATTENTION) is attends}
            parts.append(tables(own, columns, spec, names=names, layers=options.layers)[0])
        rows = stacked(parts, TABLE_COLUMNS)
        arrays = None if options.store == "rows" else partial(packed, sites, sample=options.store == "all")
        manifest = manifest_of(identity, columns, spec, options.store, seconds=round(time.monotonic() - started, 3))
        run.write(key, manifest, rows, tidy([], SERIES_COLUMNS), arrays, replace=True)
        return rows


def _batches(data: Any) -> list[Any]:
    """The probe as a list of batches that nobody else can write to."""
    if data is None:
        raise IsoscopeError("isoscope.watch needs data: a batch as the model is called with it, or a list of batches.")
    one = isinstance(data, Tensor | Mapping | tuple)
    if not one and (isinstance(data, str | bytes) or not isinstance(data, Iterable)):
        raise IsoscopeError(f"data is a batch (a tensor, a tuple, a dict) or a list of batches; got {type(data).__name__}.")
    found = [copied(batch) for batch in ([data] if one else data)]
    if not found:
        raise IsoscopeError("There was no batch: data is empty, or an iterator that was read before.")
    return found
