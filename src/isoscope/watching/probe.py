"""One look at a model in training: the batches that it gets every time, and the statistics that a look gathers."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor

from isoscope.core.errors import IsoscopeError
from isoscope.measuring.module_feeder import STACK, ModuleFeeder, add_to_digest, copy_batch
from isoscope.measuring.single_pass import Pass
from isoscope.runs.stored_cell import key_of
from isoscope.runs.tensors import pack_statistics
from isoscope.watching.look import Look
from isoscope.watching.projections import Projections, find_projections
from isoscope.watching.ranks import Ranks
from isoscope.watching.sharded import class_name

LEAN = {"taps": "hidden,attention", "sample": 1024, "store": "rows"}
"""The options of a watched step, unless the user chooses others."""


class Probe:
    """A copy of the user's batches, and the pass that runs them through the module, in every process of the training."""

    def __init__(self, feeder: ModuleFeeder, data: Any, ranks: Ranks, *, attention_is_asked_for: bool) -> None:
        self._feeder, self._pass, self._batches = feeder, Pass(feeder, feeder.options), _copy_batches(data)
        self._ranks, self._strict = ranks, attention_is_asked_for
        self._first_row, self._rows = 0, 0
        self.projections: Projections = {}
        """The weights that make queries and keys, known after the first look."""
        self.notes: dict[str, str] = {}
        """Notes for the user on how the module is measured."""

    def terms(self) -> dict[str, Any]:
        """What must be the same in all processes of a training."""
        shapes = [(name, list(parameter.shape)) for name, parameter in self._feeder.module.named_parameters()]
        options = dataclasses.asdict(self._feeder.options)
        return {"model": key_of({"shapes": shapes}), "number of batches": len(self._batches)} | {k: repr(v) for k, v in options.items()}

    def fingerprint(self) -> str:
        """A hash of the batches."""
        digest = hashlib.sha256()
        for batch in self._batches:
            add_to_digest(digest, batch)
        return digest.hexdigest()

    def look(self, step: int, seed: int | None) -> Look | None:
        """Measure the module as it is now; None in a process that is not to write it."""
        started = time.monotonic()
        try:
            self._run_batches()
            if not self._rows:
                self._number_rows()
            statistics = self._ranks.attempt(self._pass.finish)
            arrays = self._ranks.merge(dict(pack_statistics(statistics)))
            return None if arrays is None else self._describe(arrays, step, seed, started)
        finally:
            if self._pass.is_ready:
                # Nothing of a look stays in memory until the next one, not even of one that failed.
                self._pass.statistics.clear()
                self._pass.on_device.clear()

    def _run_batches(self) -> None:
        """Run all batches, and reduce them to new statistics."""
        first, failure = not self._pass.is_ready, None
        self._restart()
        for batch in self._batches:
            value = self._copy(batch)
            if failure is not None:
                self._feeder.run(value)  # the other processes run it too, and parts of the model may be theirs
                continue
            try:
                self._reduce(value)
            except Exception as error:
                if self._ranks.alone:
                    raise
                failure = error
        self._ranks.attempt(lambda: _raise(failure))
        if first and self._pass.attention is not None:
            self.projections = find_projections(self._pass, lambda: self._feeder.run(self._copy(self._batches[0])), STACK)

    def _copy(self, batch: Any) -> Any:
        """A copy, because a module may write into its input, and every look must see the same probe."""
        device = next((parameter.device for parameter in self._feeder.module.parameters()), None)
        return copy_batch(batch, device)

    def _restart(self) -> None:
        self._feeder.restart()
        self._feeder.counted = self._first_row
        if self._pass.is_ready:
            self._pass.empty()

    def _reduce(self, batch: Any) -> None:
        """Run one batch; if attention was not asked for and cannot be followed, continue without it."""
        if self._pass.is_ready or self._strict:
            self._pass.reduce(self._feeder.batch(batch))
            return
        error: Exception | None = None
        try:
            # A copy again: if attention cannot be followed, the same batch is measured once more without it.
            self._pass.reduce(self._feeder.batch(copy_batch(batch)))
        except Exception as own:  # raised below, when the other processes know
            error = own
        # All processes or none: a forward pass of a divided model needs them all.
        sentence = next((told for told in self._ranks.gather(str(error) if isinstance(error, IsoscopeError) else "") if told), "")
        if sentence:
            before = self._feeder
            options = dataclasses.replace(before.options, taps=("hidden",))
            self._feeder = ModuleFeeder(before.module, before.name, options, before.feed, before.blocks)
            self._pass = Pass(self._feeder, options)
            self._restart()
            self._pass.reduce(self._feeder.batch(batch))
            self.notes["attention"] = f"{before.name} is watched without its attention, as with taps='hidden': {sentence}"
        elif error is not None:
            raise error

    def _number_rows(self) -> None:
        """Learn how many rows the probes of all processes have, and number them one after the other, as in a single pass over all."""
        counted = self._feeder.counted - self._first_row if self._ranks.share.counts else 0
        counts = self._ranks.gather(counted)
        self._first_row, self._rows = sum(counts[: self._ranks.rank]), sum(counts)
        if self._rows > max(counts):  # several probes: the rows of all but the first have had the wrong numbers
            self._run_batches()

    def _describe(self, arrays: dict[str, Any], step: int, seed: int | None, started: float) -> Look:
        """The statistics with the identity of their cell and all that its rows say."""
        feeder, options = self._feeder, self._feeder.options
        # Hashing the weights would cost as much as all else: the training and the step identify a cell.
        weights = f"{feeder.name}{'' if seed is None else f' seed {seed}'} step {step}, watched"
        identity = feeder.identity(weights)
        spec = feeder.spec(weights) | self._pass.marks() | {"architecture": class_name(feeder.original)}
        if len(sources := self._ranks.share.sources) > 1:
            source = key_of({"sources": sources})
            identity, spec = identity | {"source": source}, spec | {"fingerprint": source}
        spec |= {"cell": key_of(identity), "documents": self._rows, "tokens": self._rows}
        # Plain values: to unpickle a type of torch's, as its version is, the other process would import torch.
        spec = json.loads(json.dumps(spec))
        seconds = round(time.monotonic() - started, 3)
        return Look(identity, feeder.columns(None, step, seed), spec, options.layers, options.store, seconds, arrays)


def _raise(error: Exception | None) -> None:
    if error is not None:
        raise error


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
