"""The tap: hooks that reduce each hidden state to statistics as it appears, and let it go."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from isoscope.core.errors import IsoscopeError
from isoscope.core.site import Site
from isoscope.models.autocast import autocast_off
from isoscope.models.blocks import Blocks, find_blocks, find_norms, is_activation, is_norm
from isoscope.models.channels import ChannelTrace
from isoscope.models.family import Stack
from isoscope.models.hook_guard import HookGuard
from isoscope.statistics.kernel import DENSE, Sums, as_block, block_sums, to_host
from isoscope.statistics.site_statistics import SiteStatistics

SMALL_D = 256
"""Up to this dimension products are taken in float64: such models are quick anyway, and their small spectra show every rounding."""
SINK = 10.0
"""A body token is a sink where its norm is above so many times the median norm of its sequence."""


@dataclass
class Layout:
    """What the positions of a batch are: (b, t) arrays of slice codes (−1 for padding), hashes and indices; (b,) of their items."""

    codes: np.ndarray
    sink_codes: np.ndarray | None  # the code of each position if it is a sink
    hashes: np.ndarray
    index: np.ndarray
    item: np.ndarray  # uint64, the hash of each sequence's item
    unit: np.ndarray  # int64, what the jackknife counts as independent
    group: np.ndarray
    last: np.ndarray
    _found: list[tuple[int, np.ndarray, np.ndarray, np.ndarray]] = field(default_factory=list, repr=False)

    def slices(self) -> list[tuple[int, np.ndarray, np.ndarray, np.ndarray]]:
        """(code, mask, flat positions, all other positions) of every slice in the batch."""
        if not self._found:
            for code in (int(code) for code in np.unique(self.codes) if code >= 0):
                mask = self.codes == code
                self._found.append((code, mask, np.flatnonzero(mask), np.flatnonzero(~mask)))
        return self._found

    def with_sinks(self, norms: np.ndarray) -> Layout:
        """The same batch with body tokens of enormous norm in their own slice; `norms` (b, t) are this site's."""
        if self.sink_codes is None:
            return self
        counted = np.where(self.codes >= 0, norms, np.nan)
        median = np.nanmedian(counted, axis=1, keepdims=True)
        codes = np.where((self.sink_codes >= 0) & (norms > SINK * median), self.sink_codes, self.codes)
        return Layout(codes, None, self.hashes, self.index, self.item, self.unit, self.group, self.last)


@dataclass(frozen=True)
class Inner:
    """A module within a block whose input and output are sites: the block's last norm, or its last activation."""

    module: nn.Module
    role: str  # norm or activation
    call: int  # which of its calls within the block
    turned: bool  # whether its maps have channels last


class Tap:
    """Hooks on the blocks of every stack. `receive(site, tensor)` gets each state, once, in the order of the pass.

    `learn` runs one forward pass first, to count block calls and, where `inner` is asked for, to find the last norm and the last
    activation of each block. `channels`: how the channels of the blocks' maps lie, `first` or `last`; where it is None, `learn` finds
    out from the layers that read and make them. `receive` gets all maps with channels first.
    """

    def __init__(
        self, stacks: dict[str, Stack], receive: Callable[[Site, Tensor], None], *, inner: bool = False, channels: str | None = "first"
    ) -> None:
        self.receive, self.inner, self.channels = receive, inner, channels
        self.layouts: dict[Site, str] = {}
        """How the channels of each map lie, where `learn` had to find out."""
        self.guard = HookGuard()
        self.stacks = {name: find_blocks(stack.module, name, stack.blocks) for name, stack in stacks.items()}
        self._norms = {name: find_norms(stack.module, self.stacks[name]) for name, stack in stacks.items()}
        self.calls: dict[str, int] = {}
        self.depth: dict[str, int] = {}
        self.nulls: dict[str, float] = {}
        """The cosine that an activation alone gives, by the label of each site behind one."""
        self._last: dict[str, Any] = {}
        self._planned: dict[tuple[str, int], list[Inner]] = {}
        self._within: dict[int, int] = {}
        self._entered: tuple[str, int] | None = None
        self.width: tuple[int, int] = (0, 0)
        """Rows and positions of the state that the running block was given."""
        self.seconds = 0.0

    def running(self) -> tuple[str, int] | None:
        """The stack and the layer of the block that runs now; None outside all blocks."""
        return self._entered

    def begin(self) -> None:
        """A new forward pass."""
        self.calls = dict.fromkeys(self.stacks, 0)
        self._last = {}
        self._entered = None

    def learn(self, run: Callable[[], object]) -> None:
        """One forward pass: how often blocks are called, and what lies within them."""
        seen: dict[tuple[str, int], list[tuple[nn.Module, str, Tensor]]] = {}
        ends: dict[tuple[str, int], Tensor] = {}

        def note(module: nn.Module, args: Any, output: Any) -> None:
            if self._entered is not None and isinstance(output, Tensor):
                seen.setdefault(self._entered, []).append((module, "norm" if is_norm(module) else "activation", output))

        trace = ChannelTrace()
        receive, self.receive = self.receive, trace.note
        channels, self.channels = self.channels, None  # maps are noted as they are
        extra = [m.register_forward_hook(self.guard.wrap(note)) for m in self._parts()] if self.inner else []
        extra += [b.register_forward_hook(self._end(name, ends)) for name, blocks in self.stacks.items() for b in _once(blocks)]
        try:
            self.begin()
            with torch.inference_mode(), self.attached(), trace:
                run()
        finally:
            self.receive, self.channels = receive, channels
            for handle in extra:
                handle.remove()
        self.depth = dict(self.calls)
        self.layouts = self._layouts(trace)
        for where, calls in seen.items():
            self._plan(where, calls, ends[where])

    def _layouts(self, trace: ChannelTrace) -> dict[Site, str]:
        finals = {Site(stack, "final", depth + 1) for stack, depth in self.depth.items()}  # before, a norm between stages looked like one
        maps = [site for site in trace.maps if site.kind != "final" or site in finals]
        if self.channels is None:
            return {site: trace.layout(site) for site in maps}
        # A final norm may read a permuted map, and its output is then laid out otherwise than what the blocks give.
        return {site: trace.tell(site) or self.channels for site in maps if site in finals}

    def _parts(self) -> list[nn.Module]:
        parts = {id(m): m for blocks in self.stacks.values() for _, b in blocks for m in b.modules() if m is not b}
        return [module for module in parts.values() if is_norm(module) or is_activation(module)]

    def _end(self, name: str, ends: dict[tuple[str, int], Tensor]) -> Callable[..., None]:
        def hook(_: nn.Module, args: Any, output: Any) -> None:
            ends[name, self.calls[name] + 1] = state_of(output)

        return self.guard.wrap(hook)

    def _plan(self, where: tuple[str, int], calls: list[tuple[nn.Module, str, Tensor]], end: Tensor) -> None:
        stack, layer = where
        turned = False
        for role in ("norm", "activation"):
            # What gates a whole map has one position; it is not a state of the block.
            fitting = [(m, out, ways) for m, kind, out in calls if kind == role and (ways := _ways(out, end))]
            if not fitting:
                continue
            module, out, ways = fitting[-1]
            if len(ways) == 1:
                turned = ways[0]
            elif isinstance(module, nn.LayerNorm):  # where height, width and channels are equal, a layer norm tells: it reads the last
                turned = getattr(module, "data_format", "channels_last") == "channels_last"
            call = sum(1 for m, kind, _ in calls if m is module)
            self._planned.setdefault(where, []).append(Inner(module, role, call, turned))
            if role == "activation":
                level = activation_null(module)
                self.nulls[Site(stack, "after_activation", layer).label] = level
                if out.data_ptr() == end.data_ptr():
                    self.nulls |= {Site(stack, kind, layer).label: level for kind in ("hidden", "map")}

    def _give(self, site: Site, tensor: Tensor) -> None:
        started = time.perf_counter()
        with autocast_off():  # a model may turn it on in its own forward pass, and products of ours would be rounded as well
            self.receive(site, self._channels_first(site, tensor))
        self.seconds += time.perf_counter() - started

    def _channels_first(self, site: Site, state: Tensor) -> Tensor:
        last = self.layouts.get(site, self.channels) == "last"
        return state.movedim(-1, 1) if last and state.dim() == 4 else state

    @contextlib.contextmanager
    def attached(self) -> Iterator[None]:
        """The hooks are in place within this context, and compiled models run eagerly so that hooks are called.

        Whatever a hook raises is raised when the context ends, whatever the model made of it.
        """
        handles = []
        for name, blocks in self.stacks.items():
            for block in _once(blocks):
                handles.append(block.register_forward_pre_hook(self._before(name), with_kwargs=True))
                handles.append(block.register_forward_hook(self._after(name)))
            handles += [norm.register_forward_hook(self._norm(name)) for norm in self._norms[name]]
        planned = {id(inner.module): inner.module for found in self._planned.values() for inner in found}
        for module in planned.values():
            handles.append(module.register_forward_pre_hook(self.guard.wrap(self._enters)))
            handles.append(module.register_forward_hook(self.guard.wrap(self._leaves)))
        try:
            with torch.compiler.set_stance("force_eager"):
                yield
        finally:
            for handle in handles:
                handle.remove()
            self.guard.raise_stored()

    def _before(self, stack: str) -> Callable[..., None]:
        def hook(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            self._entered, self._within = (stack, self.calls[stack] + 1), {}
            given = kwargs.get("hidden_states", kwargs.get("hidden_state"))
            state = state_of(args or (tuple(kwargs.values()) if given is None else given))
            entered = Site(stack, "hidden", self.calls[stack])
            b, t = points_of(self._channels_first(entered, state)).shape[:2]
            self.width = b, t
            if self.calls[stack] == 0:
                self._give(entered, state)

        return self.guard.wrap(hook)

    def _after(self, stack: str) -> Callable[..., None]:
        def hook(_: nn.Module, args: tuple[Any, ...], output: Any) -> None:
            self.calls[stack] += 1
            self._entered = None
            state = state_of(output)
            self._last[stack] = state
            self._give(Site(stack, "hidden", self.calls[stack]), state)

        return self.guard.wrap(hook)

    def _enters(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        self._within[id(module)] = self._within.get(id(module), 0) + 1
        self._around("before", module, args[0])

    def _leaves(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        self._around("after", module, output)

    def _around(self, side: str, module: nn.Module, state: Tensor) -> None:
        if self._entered is not None:
            stack, layer = self._entered
            for inner in self._planned.get(self._entered, ()):
                if inner.module is module and inner.call == self._within[id(module)]:
                    self._give(Site(stack, f"{side}_{inner.role}", layer), state.movedim(-1, 1) if inner.turned else state)

    def _norm(self, stack: str) -> Callable[..., None]:
        def hook(_: nn.Module, args: tuple[Any, ...], output: Any) -> None:
            last = self._last.get(stack)
            ended = self.calls[stack] == self.depth.get(stack, self.calls[stack])  # a norm between stages is not the final one
            if ended and last is not None and args and isinstance(args[0], Tensor) and args[0].data_ptr() == last.data_ptr():
                self._give(Site(stack, "final", self.calls[stack] + 1), state_of(output))

        return self.guard.wrap(hook)


def _ways(inner: Tensor, end: Tensor) -> list[bool]:
    """How a state within a block can be read as having the positions of the block's own: as it is, or (True) with channels last."""
    positions = points_of(end).shape[:2]
    if inner.dim() != 4:
        return [False] if inner.dim() == end.dim() and points_of(inner).shape[:2] == positions else []
    if end.dim() != 4:
        return [turned for turned in (False, True) if points_of(inner.movedim(-1, 1) if turned else inner).shape[:2] == positions]
    return [turned for turned in (False, True) if (inner.movedim(-1, 1) if turned else inner).shape[2:] == end.shape[2:]]


def _once(blocks: Blocks) -> list[nn.Module]:
    return list({id(block): block for _, block in blocks}.values())


def state_of(output: Any) -> Tensor:
    """The hidden state in what a block was given or gave: (b, t, d), a map (b, d, h, w) or, of a plain module, (b, d)."""
    candidates = list(output.values()) if isinstance(output, dict) else output if isinstance(output, tuple | list) else [output]
    tensors = [found for found in candidates if isinstance(found, Tensor) and found.is_floating_point()]
    for dimensions in ((3, 4), (2,)):
        for found in tensors:
            if found.dim() in dimensions:
                return found
    raise IsoscopeError(
        "A block gives no tensor of shape (batch, positions, dimensions); name other blocks, or give the model a family of its own."
    )


def points_of(tensor: Tensor) -> Tensor:
    """A state as (b, t, d): every position of a map is a point."""
    if tensor.dim() == 4:
        return tensor.flatten(2).transpose(1, 2)
    return tensor[:, None] if tensor.dim() == 2 else tensor


def activation_null(module: nn.Module) -> float:
    """The mean cosine of vectors of independent standard normals behind this activation: (E f)²/E f².

    >>> round(activation_null(nn.ReLU()) * np.pi, 4)
    1.0
    """
    z = torch.linspace(-8, 8, 16_001, dtype=torch.float64)
    weights = torch.exp(-z * z / 2)
    with torch.inference_mode():
        f = module(z.clone())
    return float((weights @ f) ** 2 / (weights @ f**2 * weights.sum()))


def not_finite(model: str, site: Site, found: str) -> IsoscopeError:
    """What is said where a model gives NaN or infinity: which vectors or rows, and how many."""
    return IsoscopeError(
        f"{model} gives NaN or infinity at {site.label}: {found} of one batch. Nothing was averaged; look at the weights and the inputs, "
        "or measure in float32 if it ran in a shorter type."
    )


def absorb(statistics: SiteStatistics, tensor: Tensor, layout: Layout, site: Site, model: str) -> None:
    """Reduce one hidden state (b, t, d) to the site's statistics."""
    b, t, d = tensor.shape
    x = as_block(tensor)
    if layout.sink_codes is not None:
        layout = layout.with_sinks(np.sqrt(to_host((x * x).sum(-1))))
    # Second moments are torch's to multiply even where the sums are numpy's: both would keep threads of their own awake.
    rows = tensor.detach().reshape(b * t, d)
    rows = rows.double() if d <= SMALL_D else rows if rows.dtype == torch.float64 else rows.float()
    parts: list[Sums | None] = [None] * len(statistics.names)
    for code, mask, positions, rest in layout.slices():
        if len(positions) > DENSE * b * t:
            sums = block_sums(x, mask)
            chosen, drop = rows, rest
        else:
            chosen, drop = rows[torch.as_tensor(positions, device=rows.device)], None
            sums = _by_sequence(as_block(chosen), positions // t, b)
        if sums.nonfinite:
            raise not_finite(model, site, f"{sums.nonfinite} of {len(positions)} {statistics.names[code]} vectors")
        statistics.moments[code].add(sums, chosen, drop)
        parts[code] = sums
    if statistics.groups is not None:
        statistics.groups.update(layout.group, parts, unit=layout.unit, last=layout.last)
    if statistics.sample is not None:
        statistics.sample.update(rows, layout.hashes.ravel(), np.repeat(layout.item, t), layout.index.ravel(), layout.codes.ravel())


def _by_sequence(rows: Any, owner: np.ndarray, b: int) -> Sums:
    """The sums of gathered rows, each added to the sequence that owns it."""
    each = block_sums(rows[:, None, :])
    sums = Sums.nothing(b, rows.shape[-1])
    starts = np.flatnonzero(np.diff(owner, prepend=-1))  # positions come in order, so a sequence's rows lie together
    for name in ("n", "zeros", "total", "directions", "squared", "norm", "norm2"):
        getattr(sums, name)[owner[starts]] = np.add.reduceat(getattr(each, name), starts)
    sums.nonfinite = each.nonfinite
    return sums
