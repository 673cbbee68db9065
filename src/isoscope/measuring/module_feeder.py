"""Measure any `torch.nn.Module`, or one that is being trained, over batches that the user makes: they pass through as they are."""

from __future__ import annotations

import contextlib
import copy
import gc
import hashlib
import inspect
import pickle
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from isoscope import __version__
from isoscope.core.errors import IsoscopeError
from isoscope.core.progress import Progress
from isoscope.measuring.cell import Reduced, finish_cell, reduce_batches
from isoscope.measuring.options import Options
from isoscope.measuring.single_pass import Batch, Feeder, Pass
from isoscope.models.loading.chunk import Positions
from isoscope.models.loading.family import Stack
from isoscope.models.tapping.blocks import Blocks
from isoscope.models.tapping.layout import BatchLayout, Rows, Slicer
from isoscope.models.tapping.tap import autocast_off
from isoscope.runs.run import Run
from isoscope.statistics.sample import item_hash

STACK = "backbone"
MASKS = ("attention_mask", "key_padding_mask", "src_key_padding_mask", "tgt_key_padding_mask")
"""The names that a batch may give its mask. In the first, values above 0 count; in the others, torch's own, True and -inf are padding."""
Feed = Callable[[Any, Any], object]


def measure_module(
    module: Any, batches: Any, run: Run, options: Options, progress: Progress, *, feed: Feed | None, blocks: str | None, name: str | None
) -> None:
    """Measure a module over batches. Its identity depends on the batches, so nothing is known before they have been read.

    A cell of the same weights, batches and name is replaced: the code of the module and `feed` may differ, and cannot be compared.
    """
    check_module(module, batches)
    feeder = ModuleFeeder(module, name, options, feed, blocks, batches)
    single_pass = Pass(feeder, options)
    started = time.monotonic()
    with evaluating(module):
        reduce_batches(single_pass, progress)
    statistics, weights = single_pass.finish(), feeder.weights_digest()
    spec = feeder.spec(weights) | single_pass.marks()
    reduced = Reduced(statistics, feeder.columns(weights[:12]), spec, time.monotonic() - started)
    run.prepare()
    finish_cell(run, feeder.identity(weights), reduced, options, progress, replace=True)
    del feeder, single_pass
    gc.collect()  # a module and its hooks hold each other


class ModuleFeeder(Feeder):
    """A module and the user's batches. Every row of a batch is an item, and nothing is known before a batch has been run."""

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
        self.restart()

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
        # Before the batch is run, because a module may write into its input.
        add_to_digest(self._digest, value)
        mask = find_mask(self._arguments(value))

        def rows(b: int) -> Rows:
            # Numbered over all batches, so that the size of batches changes neither groups nor sample.
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
        return [Positions(np.zeros(n, dtype=bool), ordered=self.ordered) for n in counts]

    def run(self, value: Any, *, copy: bool = False) -> None:
        """Run the module on a batch. It is not in inference mode: autograd must be able to use what a module keeps for later passes."""
        with torch.inference_mode(mode=False), torch.no_grad():
            self.feed(self.module, copy_batch(value) if copy else value)

    def calibration_batches(self, first: Batch) -> Iterable[Batch]:
        """The first batch, because the user's batches may be an iterator that can be read only once."""
        return (first,)

    def check_blocks(self, blocks: Blocks) -> None:
        """Refuse blocks whose states have positions before rows."""
        if any(_positions_first(block) for _, block in blocks):
            raise IsoscopeError(
                f"{self.name} takes positions before rows (batch_first=False), and here a row is an item; make it with "
                "batch_first=True, which its weights fit as well."
            )

    def finish_batch(self, batch: Batch) -> None:
        """Count the rows of a batch that was measured."""
        self.done += 1
        self.counted += batch.layout.row_count

    def restart(self) -> None:
        """Count from the beginning."""
        self.done = 0
        self.counted = 0
        """How many rows were measured."""
        self._digest = hashlib.sha256()

    def progress(self) -> tuple[int, int]:
        """How many batches are done, and how many rows were measured."""
        return self.done, self.counted

    def check_not_empty(self) -> None:
        """Refuse an iterable without a batch."""
        if not self.done:
            raise IsoscopeError("There was no batch: batches is empty, or an iterator that was read before.")

    def weights_digest(self) -> str:
        """A hash of the class and the weights of the module."""
        digest = hashlib.sha256(type(self.original).__name__.encode())
        add_to_digest(digest, self.original.state_dict())
        return digest.hexdigest()

    def identity(self, weights: str) -> dict[str, Any]:
        """Everything that determines the statistics."""
        identity = {"weights": weights, "source": self._digest.hexdigest(), "shard": [0, 1], "blocks": self.blocks, "name": self.name}
        return identity | self.options.identity()

    def columns(self, revision: str | None, step: int | None = None, seed: int | None = None) -> dict[str, Any]:
        """The table's columns about the module, the same in every row."""
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


def check_module(module: Any, batches: Any) -> None:
    """Refuse anything but a module and an iterable of batches."""
    if not isinstance(module, nn.Module):
        raise IsoscopeError(f"isoscope.measure takes a torch.nn.Module or names of models; got {type(module).__name__}.")
    if isinstance(batches, Tensor | Mapping):
        raise IsoscopeError(f"A module is measured over an iterable of batches; got one {type(batches).__name__}, which goes into a list.")
    if isinstance(batches, str | bytes) or not (isinstance(batches, Iterable) or hasattr(batches, "__getitem__")):
        raise IsoscopeError(
            f"A module is measured over an iterable of batches, each a tensor, a tuple or a dict; got {type(batches).__name__}. A model of "
            "transformers also reads files, with tokenizer=… or processor=…."
        )


def find_mask(arguments: Mapping[str, Any]) -> np.ndarray | None:
    """The positions of a batch that count, (rows, positions); None if it has no mask or the mask leaves nothing out."""
    names = [name for name in MASKS if isinstance(arguments.get(name), Tensor)]
    if not names:
        return None
    if len(names) > 1:
        raise IsoscopeError(f"A batch has both {names[0]} and {names[1]}; rename the one that padding is not to be read from, with feed=….")
    given = arguments[names[0]].detach().cpu()
    mask: np.ndarray = (given > 0 if names[0] == MASKS[0] else given == 0).numpy()
    if not mask.any():
        meaning = "1 is what counts" if names[0] == MASKS[0] else "True is padding"
        raise IsoscopeError(f"The {names[0]} of a batch leaves no position; {meaning}.")
    return None if mask.all() else mask


def call_module(module: Any, batch: Any) -> object:
    """Call the module with a batch."""
    arguments = bind_batch(module, batch)
    if not any(isinstance(value, Tensor) for value in (arguments.args + tuple(arguments.kwargs.values()))):
        raise IsoscopeError(
            f"A batch must hold a tensor; got {type(batch).__name__}. To make tensors of it on the way give feed=lambda module, batch: …."
        )
    return module(*arguments.args, **arguments.kwargs)


def bind_batch(module: Any, batch: Any) -> inspect.BoundArguments:
    """A batch as the arguments of the module."""
    args, named = ((), batch) if isinstance(batch, Mapping) else (batch if isinstance(batch, tuple | list) else (batch,), {})
    called = getattr(module, "_orig_mod", module).forward
    try:
        return inspect.signature(called).bind(*args, **named)
    except TypeError as error:
        raise IsoscopeError(
            f"{type(module).__name__} cannot be called with a batch as it is ({error}); say how with feed=lambda module, batch: …."
        ) from error


def copy_batch(value: Any, device: torch.device | None = None) -> Any:
    """A copy of a batch, on another device if one is given."""
    if isinstance(value, Tensor):
        return value.detach().to(device, copy=True)
    if type(value) in (tuple, list):
        return type(value)(copy_batch(held, device) for held in value)
    if type(value) is dict:
        return {key: copy_batch(held, device) for key, held in value.items()}
    made = copy.deepcopy(value)
    return made.to(device) if device is not None and hasattr(made, "to") else made


def add_to_digest(digest: Any, value: Any) -> None:
    """Add a value to a digest: tensors and containers by their content, anything else by its pickle."""
    if isinstance(value, Tensor):
        # Type and shape first: the same bytes in another shape are another batch. As bytes, because numpy has no bfloat16.
        digest.update(str((value.dtype, tuple(value.shape))).encode())
        digest.update(memoryview(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()))
    elif isinstance(value, Mapping | tuple | list):
        digest.update(f"{type(value).__name__} {len(value)}".encode())
        for pair in value.items() if isinstance(value, Mapping) else enumerate(value):
            digest.update(str(pair[0]).encode())
            add_to_digest(digest, pair[1])
    else:
        try:
            digest.update(pickle.dumps(value))
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            raise IsoscopeError(
                f"A batch holds a {type(value).__name__}, which cannot be fingerprinted; give tensors, arrays, strings, or lists of them."
            ) from error
