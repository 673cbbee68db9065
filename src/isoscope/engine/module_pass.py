"""Any `torch.nn.Module`, with batches that the user makes: the same tap, the same statistics, the same table."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import gc
import hashlib
import inspect
import pickle
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
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
from isoscope.models.autocast import autocast_dtypes, autocast_off
from isoscope.models.family import Stack
from isoscope.models.piece import Piece, Positions
from isoscope.models.tap import Layout, state_of
from isoscope.statistics.kept import Statistics
from isoscope.statistics.sample import item_hash
from isoscope.store.manifest import key_of
from isoscope.store.run import Run

STACK = "backbone"
MASKS = ("attention_mask", "key_padding_mask", "src_key_padding_mask", "tgt_key_padding_mask")
"""What a batch may call its mask. In the first what is above 0 counts; in torch's own what is not 0 (True, -inf) is padding."""
Feed = Callable[[Any, Any], object]


def measure_module(
    module: Any,
    batches: Any,
    run: Run,
    options: Options,
    progress: Progress,
    *,
    feed: Feed | None = None,
    blocks: str | None = None,
    name: str | None = None,
) -> Results:
    """Measure a module over batches. What is computed depends on the batches, so nothing is known before they have been read.

    A cell of the same weights, batches and name is replaced: what else the module does, its code and `feed`, cannot be told apart.
    """
    _check(module, batches)
    whole = getattr(module, "_orig_mod", module)  # what torch.compile was given
    called = name or type(whole).__name__
    one = ModulePass(module, called, options, feed or call, blocks)
    started = time.monotonic()
    with evaluating(module), progress.bar(f"{called}: measuring", len(batches) if isinstance(batches, Sized) else None, "batches") as bar:
        for batch in batches:
            one.add(batch)
            bar.advance(rate=f"{one.rows / max(time.monotonic() - started, 1e-9):,.0f} rows/s")
            give_back()
    if one.sites is None:
        raise IsoscopeError("There was no batch: batches is empty, or an iterator that was read before.")
    weights = _digest(whole)
    identity, columns, spec = one.identity(weights), one.columns(weights[:12]), one.spec(weights)
    key = key_of(identity)
    ordered = one.ordered_statistics()
    run.prepare()
    finish_cell(run, key, identity, ordered, columns, spec, options, progress, time.monotonic() - started, replace=True)
    del one, ordered
    gc.collect()  # a module and its hooks hold each other
    return Results(run.path)


def _check(module: Any, batches: Any) -> None:
    if not isinstance(module, nn.Module):
        raise IsoscopeError(f"isoscope.measure takes a torch.nn.Module or names of models; got {type(module).__name__}.")
    if isinstance(batches, Tensor | Mapping):
        raise IsoscopeError(f"A module is measured over an iterable of batches; got one {type(batches).__name__}, which goes into a list.")
    if isinstance(batches, str | bytes) or not (isinstance(batches, Iterable) or hasattr(batches, "__getitem__")):
        raise IsoscopeError(
            f"A module is measured over an iterable of batches, each a tensor, a tuple or a dict; got {type(batches).__name__}."
        )


@contextlib.contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Evaluation in the module's own type: autocast is off.

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


class ModulePass:
    """The statistics of a module, batch by batch; the first batch shows what sites there are."""

    def __init__(self, module: nn.Module, name: str, options: Options, feed: Feed, blocks: str | None) -> None:
        self.module, self.name, self.options, self.feed, self.blocks = module, name, options, feed, blocks
        self.slicer = Slicer((), 1)
        self.sites: Sites | None = None
        self.ordered = True
        self.autocast: dict[str, str] = {}
        """Where the module, or `feed`, turns autocast on by itself: the type that it computes in, per type of device."""
        self.rows = 0
        self.seen = hashlib.sha256()

    def add(self, batch: Any) -> None:
        """Run one batch."""
        _tell(self.seen, batch)
        first = self.sites is None
        self.sites = self.sites or self._learned(batch)
        kept, counted = _kept(self._arguments(batch)), [0]

        @functools.cache
        def laid(stack: str, b: int, t: int) -> Layout:
            counted.append(b)
            return self._layout(stack, b, t, kept)

        if first and self.options.ablate_queries:
            self.sites.calibrate(lambda: self.run(batch, copy=True), laid)
        self.sites.measure(lambda: self.run(batch), laid)
        calls, depth = self.sites.tap.calls[STACK], self.sites.tap.depth[STACK]
        if calls != depth:
            raise IsoscopeError(
                f"The blocks of {self.name} were called {depth} times in the first batch and {calls} times in a later one; "
                "layers can be told apart only where every batch calls them alike."
            )
        self.rows += max(counted)

    def run(self, batch: Any, *, copy: bool = False) -> None:
        """The module's forward pass. It is not in inference mode: what a module keeps for later passes must be of use to autograd."""
        with torch.inference_mode(mode=False), torch.no_grad():
            self.feed(self.module, copied(batch) if copy else batch)

    def restart(self) -> None:
        """Begin again with the same sites and nothing in them."""
        self.rows, self.seen = 0, hashlib.sha256()
        if self.sites is not None:
            self.sites.empty()

    def ordered_statistics(self) -> Statistics:
        """The statistics of every site, each of which must have seen something, in the order of a table."""
        assert self.sites is not None
        self.sites.check()
        return dict(sorted(self.sites.statistics.items(), key=lambda pair: pair[0].order))

    def identity(self, weights: str) -> dict[str, Any]:
        """What determines the statistics."""
        about = {"weights": weights, "source": self.seen.hexdigest(), "shard": [0, 1], "blocks": self.blocks, "name": self.name}
        return about | self.options.identity()

    def columns(self, revision: str | None, step: int | None = None, seed: int | None = None) -> dict[str, Any]:
        """What the table says of the module."""
        about = {"model": self.name, "revision": revision, "step": step, "seed": seed}
        return about | {"modality": "batches", "family": "module"}

    def spec(self, weights: str) -> dict[str, Any]:
        """What moved the numbers."""
        assert self.sites is not None
        return (
            {
                "data": "batches",
                "fingerprint": self.seen.hexdigest(),
                "weights": weights,
                "architecture": type(getattr(self.module, "_orig_mod", self.module)).__name__,
                "documents": self.rows,
                "tokens": self.rows,
                "counted": "rows",
                "sample": self.options.sample,
                "seed": self.options.seed,
                "shard": "1/1",
                "unit": "row",
                "isoscope": __version__,
                "torch": torch.__version__,
                "numpy": np.__version__,
            }
            | ({"autocast": self.autocast} if self.autocast else {})
            | self.sites.marks()
        )

    def _arguments(self, batch: Any) -> Mapping[str, Any]:
        """What a batch holds, by name, where names are to be had."""
        if isinstance(batch, Mapping):
            return batch
        return _bound(self.module, batch).arguments if self.feed is call else {}

    def _learned(self, batch: Any) -> Sites:
        """The sites, and whether their positions have an order: those of a map have none, nor has a single vector."""
        chosen = self.options.channels
        sites = Sites({STACK: Stack(self.module, self.blocks)}, self.options, self.slicer.names, self.name, maps=True, channels=chosen)
        found = [block for _, block in sites.tap.stacks[STACK]]
        for block in found:
            if _positions_first(block):
                raise IsoscopeError(
                    f"{self.name} takes positions before rows (batch_first=False), and here a row is an item; make it with "
                    "batch_first=True, which its weights fit as well."
                )
        shapes: set[int] = set()

        def note(_: nn.Module, args: Any, output: Any) -> None:
            shapes.add(state_of(output).dim())
            self.autocast |= autocast_dtypes()

        # A module may change what it is given, and would see the first batch more than once: it gets copies.
        handles = [block.register_forward_hook(sites.tap.guard.wrap(note)) for block in found]
        try:
            sites.learn(lambda: self.run(batch, copy=True))
        finally:
            for handle in handles:
                handle.remove()
        self.ordered = shapes == {3}
        return sites

    def _layout(self, stack: str, b: int, t: int, kept: np.ndarray | None) -> Layout:
        units = [item_hash(f"row {self.rows + i}") for i in range(b)]
        batch = [Sequence(Piece(np.zeros(0), t), unit, unit) for unit in units]
        if not stack or kept is None:
            kept = np.ones((b, t), dtype=bool)
        elif kept.shape != (b, t):
            raise IsoscopeError(
                f"The mask of a batch is {' × '.join(map(str, kept.shape))} and {self.name} has states of {b} rows × {t} positions, so "
                "padding cannot be told; name other blocks, or give batches without padding."
            )
        positions = [Positions(np.zeros(n, dtype=bool), ordered=self.ordered) for n in kept.sum(1)]
        layout = self.slicer.laid(batch, np.ones(b, dtype=bool), self.options.seed, lambda *_: positions)(stack, b, t)
        return layout if kept.all() else _moved(layout, kept)


def _moved(layout: Layout, kept: np.ndarray) -> Layout:
    """A layout whose positions lie where the mask says, wherever the padding is, instead of at the front of their rows."""
    front = np.arange(kept.shape[1]) < kept.sum(1)[:, None]
    codes, hashes, index = np.full_like(layout.codes, -1), np.zeros_like(layout.hashes), np.zeros_like(layout.index)
    codes[kept], hashes[kept], index[kept] = layout.codes[front], layout.hashes[front], layout.index[front]
    return dataclasses.replace(layout, codes=codes, hashes=hashes, index=index)


def _positions_first(block: nn.Module) -> bool:
    attends = block.self_attn if isinstance(block, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer) else block
    return isinstance(attends, nn.MultiheadAttention | nn.RNNBase) and not attends.batch_first


def _kept(arguments: Mapping[str, Any]) -> np.ndarray | None:
    """Which positions of a batch count, (rows, positions); None where it has no mask or the mask leaves nothing out."""
    named = [name for name in MASKS if isinstance(arguments.get(name), Tensor)]
    if not named:
        return None
    if len(named) > 1:
        raise IsoscopeError(f"A batch has both {named[0]} and {named[1]}; rename the one that padding is not to be read from, with feed=….")
    mask = arguments[named[0]].detach().cpu()
    kept: np.ndarray = (mask > 0 if named[0] == MASKS[0] else mask == 0).numpy()
    if not kept.any():
        meant = "1 is what counts" if named[0] == MASKS[0] else "True is padding"
        raise IsoscopeError(f"The {named[0]} of a batch leaves no position; {meant}.")
    return None if kept.all() else kept


def call(module: Any, batch: Any) -> object:
    """The module called with a batch."""
    arguments = _bound(module, batch)
    if not any(isinstance(value, Tensor) for value in (arguments.args + tuple(arguments.kwargs.values()))):
        raise IsoscopeError(
            f"A batch must hold a tensor; got {type(batch).__name__}. To make tensors of it on the way give feed=lambda module, batch: …."
        )
    return module(*arguments.args, **arguments.kwargs)


def _bound(module: Any, batch: Any) -> inspect.BoundArguments:
    """The arguments of the module that a batch is."""
    args, named = ((), batch) if isinstance(batch, Mapping) else (batch if isinstance(batch, tuple | list) else (batch,), {})
    called = getattr(module, "_orig_mod", module).forward
    try:
        return inspect.signature(called).bind(*args, **named)
    except TypeError as error:
        raise IsoscopeError(
            f"{type(module).__name__} cannot be called with a batch as it is ({error}); say how with feed=lambda module, batch: …."
        ) from error


def copied(value: Any, device: torch.device | None = None) -> Any:
    """A batch of its own, where asked for on another device."""
    if isinstance(value, Tensor):
        return value.detach().to(device, copy=True)
    if type(value) in (tuple, list):
        return type(value)(copied(held, device) for held in value)
    if type(value) is dict:
        return {key: copied(held, device) for key, held in value.items()}
    made = copy.deepcopy(value)
    return made.to(device) if device is not None and hasattr(made, "to") else made


def _tell(digest: Any, value: Any) -> None:
    """Add a value to a digest: tensors by content, containers by what they hold, anything else as it is pickled."""
    if isinstance(value, Tensor):
        digest.update(str((value.dtype, tuple(value.shape))).encode())
        digest.update(memoryview(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()))
    elif isinstance(value, Mapping | tuple | list):
        digest.update(f"{type(value).__name__} {len(value)}".encode())
        for pair in value.items() if isinstance(value, Mapping) else enumerate(value):
            digest.update(str(pair[0]).encode())
            _tell(digest, pair[1])
    else:
        try:
            digest.update(pickle.dumps(value))
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            raise IsoscopeError(
                f"A batch holds a {type(value).__name__}, which cannot be fingerprinted; give tensors, arrays, strings, or lists of them."
            ) from error


def _digest(module: nn.Module) -> str:
    digest = hashlib.sha256(type(module).__name__.encode())
    _tell(digest, module.state_dict())
    return digest.hexdigest()
