"""Any `torch.nn.Module`, with batches that the user makes: the same tap, the same statistics, the same table."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping, Sized
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from isoscope.core.errors import IsoscopeError
from isoscope.core.version import __version__
from isoscope.engine.announce import give_back
from isoscope.engine.measure import finish_cell
from isoscope.engine.options import Options
from isoscope.engine.progress import Progress
from isoscope.engine.results import Results
from isoscope.engine.sites import Sites
from isoscope.engine.stream import Sequence, Slicer
from isoscope.models.family import Stack
from isoscope.models.piece import Piece, Positions
from isoscope.models.tap import Layout
from isoscope.statistics.sample import item_hash
from isoscope.store.cell import key_of
from isoscope.store.run import Run

STACK = "backbone"
Feed = Callable[[Any, Any], object]


def measure_module(
    module: Any,
    batches: Iterable[Any],
    run: Run,
    options: Options,
    progress: Progress,
    *,
    feed: Feed | None = None,
    blocks: str | None = None,
    name: str | None = None,
) -> Results:
    """Measure a module over batches. What is computed depends on the batches, so nothing is known before they have been read."""
    if not isinstance(module, nn.Module):
        raise IsoscopeError(f"isoscope.measure takes a torch.nn.Module or names of models; got {type(module).__name__}.")
    if isinstance(batches, str | bytes):
        raise IsoscopeError("A module is measured over batches, an iterable of tensors, tuples or dicts; got a string.")
    called, run_batch, training = name or type(module).__name__, feed or _call, module.training
    one = _ModulePass(module, called, options, run_batch, blocks)
    started = time.monotonic()
    module.eval()
    try:
        with progress.bar(f"{called}: measuring", len(batches) if isinstance(batches, Sized) else None, "batches") as bar:
            for batch in batches:
                one.add(batch)
                bar.advance(rate=f"{one.rows / max(time.monotonic() - started, 1e-9):,.0f} rows/s")
                give_back()
    finally:
        module.train(training)
    if one.sites is None:
        raise IsoscopeError("There was no batch: batches is empty, or an iterator that was read before.")
    one.sites.check()
    identity = {"weights": _digest(module), "source": one.seen.hexdigest(), "shard": [0, 1], "blocks": blocks, **options.identity()}
    key = key_of(identity)
    run.prepare()
    if run.cell(key, options.keep) is None:
        columns = {"model": called, "revision": str(identity["weights"])[:12], "step": None, "seed": None}
        columns |= {"modality": "batches", "family": "module"}
        spec = {
            "data": "batches",
            "fingerprint": identity["source"],
            "weights": identity["weights"],
            "architecture": type(module).__name__,
            "documents": one.rows,
            "tokens": one.rows,
            "counted": "rows",
            "sample": options.sample,
            "seed": options.seed,
            "shard": "1/1",
            "unit": "row",
            "isoscope": __version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
        }
        ordered = dict(sorted(one.sites.statistics.items(), key=lambda pair: pair[0].order))
        finish_cell(run, key, identity, ordered, columns, spec | one.sites.marks(), options, progress, time.monotonic() - started)
    return Results(run.path)


class _ModulePass:
    """The statistics of a module, batch by batch; the first batch shows what sites there are."""

    def __init__(self, module: nn.Module, name: str, options: Options, feed: Feed, blocks: str | None) -> None:
        self.module, self.name, self.options, self.feed, self.blocks = module, name, options, feed, blocks
        self.slicer = Slicer((), 1)
        self.sites: Sites | None = None
        self.rows = 0
        self.seen = hashlib.sha256()

    def add(self, batch: Any) -> None:
        """Run one batch."""

        def run() -> None:
            self.feed(self.module, batch)

        if self.sites is None:
            self.sites = Sites({STACK: Stack(self.module, self.blocks)}, self.options, self.slicer.names, self.name, maps=True)
            with torch.inference_mode():
                self.sites.learn(run)
        for tensor in _tensors(batch):
            self.seen.update(str((tensor.dtype, tuple(tensor.shape))).encode())
            self.seen.update(_bytes(tensor))
        mask = batch.get("attention_mask") if isinstance(batch, Mapping) else None
        counted: list[int] = []

        def laid(stack: str, b: int, t: int) -> Layout:
            counted.append(b)
            return self._layout(stack, b, t, mask)

        self.sites.measure(run, laid)
        self.rows += max(counted, default=0)

    def _layout(self, stack: str, b: int, t: int, mask: Any) -> Layout:
        units = [item_hash(f"row {self.rows + i}") for i in range(b)]
        batch = [Sequence(Piece(np.zeros(0), t), unit, unit) for unit in units]
        all_of = [Positions(np.zeros(t, dtype=bool))] * b
        layout = self.slicer.laid(batch, np.ones(b, dtype=bool), self.options.seed, lambda _, t: all_of)(stack, b, t)
        if stack and isinstance(mask, Tensor) and mask.shape == (b, t):
            layout = replace(layout, codes=np.where(mask.detach().cpu().numpy() > 0, layout.codes, -1).astype(np.int16))
        return layout


def _call(module: Any, batch: Any) -> object:
    if isinstance(batch, Mapping):
        return module(**batch)
    return module(*batch) if isinstance(batch, tuple | list) else module(batch)


def _tensors(batch: Any) -> list[Tensor]:
    """Every tensor of a batch, in order."""
    values = batch.values() if isinstance(batch, Mapping) else batch if isinstance(batch, tuple | list) else [batch]
    return [value for value in values if isinstance(value, Tensor)]


def _bytes(tensor: Tensor) -> memoryview:
    return memoryview(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())


def _digest(module: nn.Module) -> str:
    digest = hashlib.sha256(type(module).__name__.encode())
    for name, tensor in module.state_dict().items():
        digest.update(name.encode())
        digest.update(_bytes(tensor))
    return digest.hexdigest()
