"""Feeds any `torch.nn.Module`, or one that is being trained, with batches that the user makes: they pass through as they are."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sized
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from isoscope import __version__
from isoscope.core.errors import IsoscopeError
from isoscope.core.site import Site
from isoscope.measuring.module_batches import Feed, add_to_digest, bind_batch, call_module, copy_batch, find_mask
from isoscope.measuring.options import Options
from isoscope.measuring.single_pass import Batch
from isoscope.measuring.sites import Sites
from isoscope.models.loading.chunk import Positions
from isoscope.models.loading.family import Stack
from isoscope.models.tapping.blocks import Blocks
from isoscope.models.tapping.layout import BatchLayout, Rows, Slicer
from isoscope.models.tapping.tap import autocast_off
from isoscope.statistics.sample import item_hash

STACK = "backbone"


class ModuleFeeder:
    """A module and the user's batches. Every row of a batch is an item, and nothing is known before a batch has been run."""

    inner = False
    has_maps = True
    longest: int | None = None
    unit = "batches"
    counted_unit = "rows"

    def __init__(
        self, module: nn.Module, name: str | None, options: Options, feed: Feed | None, blocks: str | None, batches: Iterable[Any] = ()
    ) -> None:
        self.module, self.options, self.feed, self.blocks, self.batches = module, options, feed or call_module, blocks, batches
        self.name = name or type(self.original).__name__
        self.stacks = {STACK: Stack(module, blocks)}
        self.channels = options.channels
        self.slicer = Slicer((), 1)
        self.done = 0
        self.counted = 0
        """How many rows were measured."""
        self._digest = hashlib.sha256()
        self._ordered = True

    @property
    def original(self) -> nn.Module:
        """The module that torch.compile was given, or the module itself."""
        original: nn.Module = getattr(self.module, "_orig_mod", self.module)
        return original

    def total(self) -> int | None:
        """How many batches there are, if they can be counted."""
        return len(self.batches) if isinstance(self.batches, Sized) else None

    def windows(self) -> Iterator[Iterable[Batch]]:
        """Each batch by itself."""
        for value in self.batches:
            yield (self.batch(value),)

    def batch(self, value: Any) -> Batch:
        """One of the user's batches."""
        add_to_digest(self._digest, value)
        mask = find_mask(self._arguments(value))

        def rows(b: int) -> Rows:
            units = [item_hash(f"row {self.counted + i}") for i in range(b)]
            return Rows.of(units, units, np.ones(b, dtype=bool))

        layout = BatchLayout(self.slicer, self.options.seed, rows, partial(self._positions, mask), mask)
        return Batch(partial(self.run, value), partial(self.run, value, copy=True), layout)

    def _positions(self, mask: np.ndarray | None, stack: str, b: int, t: int) -> list[Positions]:
        if mask is not None and mask.shape != (b, t):
            raise IsoscopeError(
                f"The mask of a batch is {' × '.join(map(str, mask.shape))} and {self.name} has states of {b} rows × {t} positions, so "
                "padding cannot be told; name other blocks, or give batches without padding."
            )
        counts = [t] * b if mask is None else mask.sum(1)
        return [Positions(np.zeros(n, dtype=bool), ordered=self._ordered) for n in counts]

    def run(self, value: Any, *, copy: bool = False) -> None:
        """Run the module on a batch. It is not in inference mode: autograd must be able to use what a module keeps for later passes."""
        with torch.inference_mode(mode=False), torch.no_grad():
            self.feed(self.module, copy_batch(value) if copy else value)

    def calibration_batches(self, first: Batch) -> Iterable[Batch]:
        """The first batch: there is no other way to see some of them twice."""
        return (first,)

    def check_blocks(self, blocks: Blocks) -> None:
        """Refuse blocks whose states have positions before rows."""
        if any(_positions_first(block) for _, block in blocks):
            raise IsoscopeError(
                f"{self.name} takes positions before rows (batch_first=False), and here a row is an item; make it with "
                "batch_first=True, which its weights fit as well."
            )

    def start_measuring(self, sites: Sites) -> None:
        """Take note of whether positions have an order."""
        self._ordered = sites.ordered

    def finish_batch(self, batch: Batch) -> None:
        """Count the rows of a batch that was measured."""
        self.done += 1
        self.counted += batch.layout.row_count

    def restart(self) -> None:
        """Count from the beginning."""
        self.done, self.counted, self._digest = 0, 0, hashlib.sha256()

    def check_not_empty(self) -> None:
        """Refuse an iterable without a batch."""
        if not self.done:
            raise IsoscopeError("There was no batch: batches is empty, or an iterator that was read before.")

    def cursor(self) -> dict[str, int]:
        """Batches of the user's cannot be resumed."""
        return {}

    def move_to(self, cursor: dict[str, int]) -> None:
        """Batches of the user's cannot be resumed."""

    def tables(self) -> dict[Site, Tensor]:
        """A module names none of its tables."""
        return {}

    def weights_digest(self) -> str:
        """A hash of the class and the weights of the module."""
        digest = hashlib.sha256(type(self.original).__name__.encode())
        add_to_digest(digest, self.original.state_dict())
        return digest.hexdigest()

    def identity(self, weights: str) -> dict[str, Any]:
        """What determines the statistics."""
        identity = {"weights": weights, "source": self._digest.hexdigest(), "shard": [0, 1], "blocks": self.blocks, "name": self.name}
        return identity | self.options.identity()

    def columns(self, revision: str | None, step: int | None = None, seed: int | None = None) -> dict[str, Any]:
        """What the table says about the module in every row."""
        columns = {"model": self.name, "revision": revision, "step": step, "seed": seed}
        return columns | {"modality": "batches", "family": "module"}

    def spec(self, weights: str) -> dict[str, Any]:
        """Everything that can change a number."""
        return {
            "data": "batches",
            "fingerprint": self._digest.hexdigest(),
            "weights": weights,
            "architecture": type(self.original).__name__,
            "documents": self.counted,
            "tokens": self.counted,
            "counted": "rows",
            "sample": self.options.sample,
            "seed": self.options.seed,
            "shard": "1/1",
            "unit": "row",
            "isoscope": __version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
        }

    def _arguments(self, value: Any) -> Mapping[str, Any]:
        """The contents of a batch by name, if names are known."""
        if isinstance(value, Mapping):
            return value
        return bind_batch(self.module, value).arguments if self.feed is call_module else {}


@contextlib.contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Put the module into evaluation mode, in its own type: autocast is off.

    The fast path of torch's Transformer layers is off too: it packs states so that no hook can read them. Flags are set one by one and
    `module.eval()` is not called: some modules merge weights there, and `train()` would have to be called to undo it.
    """
    modes, fast = [(part, part.training) for part in module.modules()], torch.backends.mha.get_fastpath_enabled()
    try:
        torch.backends.mha.set_fastpath_enabled(False)
        for part, _ in modes:
            part.training = False
        with autocast_off():
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        for part, mode in modes:
            part.training = mode


def _positions_first(block: nn.Module) -> bool:
    attention = block.self_attn if isinstance(block, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer) else block
    return isinstance(attention, nn.MultiheadAttention | nn.RNNBase) and not attention.batch_first
