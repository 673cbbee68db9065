"""The tap: hooks that hand on each hidden state as it appears, and let it go."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from isoscope.core.site import Site
from isoscope.models.loading.family import Stack
from isoscope.models.model_errors import HookGuard
from isoscope.models.tapping.blocks import (
    Blocks,
    activation_null,
    find_blocks,
    find_norms,
    is_activation,
    is_norm,
    points_of,
    state_of,
)
from isoscope.models.tapping.channels import ChannelTrace

DEVICES = ("cpu", "cuda", "mps", "xpu", "hpu", "mtia", "xla", "privateuseone")
"""The types of device that autocast knows."""
BlockKey = tuple[str, int]
"""The stack and the layer of a block."""


@dataclass(frozen=True)
class InnerCall:
    """A call of a norm or an activation within a block, seen while learning."""

    module: nn.Module
    role: str
    args: tuple[Any, ...]
    output: Tensor


@dataclass(frozen=True)
class Inner:
    """A module within a block whose input and output are sites: the block's last norm, or its last activation."""

    module: nn.Module
    role: str  # norm or activation
    call: int  # which of its calls within the block
    turned: bool  # whether its maps have channels last


class Tap:
    """Hooks on the blocks of every stack. `receive(site, tensor)` gets each state, once, in the order of the pass.

    `learn` runs one forward pass first, to count block calls and, with `inner`, to find the last norm and the last activation of each
    block. `channels`: how the channels of the blocks' maps lie, `first` or `last`; if it is None, `learn` finds out from the layers that
    read and make them. `receive` gets all maps with channels first.
    """

    def __init__(
        self, stacks: dict[str, Stack], receive: Callable[[Site, Tensor], None], *, inner: bool = False, channels: str | None = "first"
    ) -> None:
        self.receive, self.inner, self.channels = receive, inner, channels
        self.layouts: dict[Site, str] = {}
        """How the channels of each map lie, if `learn` had to find out."""
        self.devices: dict[Site, torch.device] = {}
        """Where each state lies."""
        self.guard = HookGuard()
        self.stacks = {name: find_blocks(stack.module, name, stack.blocks) for name, stack in stacks.items()}
        self._norms = {name: find_norms(stack.module, self.stacks[name]) for name, stack in stacks.items()}
        self.calls: dict[str, int] = {}
        self.depth: dict[str, int] = {}
        self.nulls: dict[str, float] = {}
        """The cosine that an activation alone gives, by the label of each site behind one."""
        self.autocast: dict[str, str] = {}
        """The type that the model computes in if it turns autocast on by itself, per type of device."""
        self._last: dict[str, Any] = {}
        self._planned: dict[BlockKey, list[Inner]] = {}
        self._within: dict[int, int] = {}
        self._entered: BlockKey | None = None
        self.width: tuple[int, int] = (0, 0)
        """Rows and positions of the state that the running block was given."""
        self.seconds = 0.0

    def running(self) -> BlockKey | None:
        """The stack and the layer of the block that runs now; None outside all blocks."""
        return self._entered

    def begin(self) -> None:
        """Start a new forward pass."""
        self.calls = dict.fromkeys(self.stacks, 0)
        self._last = {}
        self._entered = None

    def learn(self, run: Callable[[], object], mode: contextlib.AbstractContextManager[Any] | None = None) -> dict[Site, Tensor]:
        """Run one forward pass, within `mode`, and learn all that later passes need.

        That is how often blocks are called, what lies within them, how maps are laid out and whether the model turns autocast on.

        Returns:
            For every site a tensor without content (on the meta device) of the shape and type that `receive` will get.
        """
        trace = ChannelTrace()
        states: dict[Site, Tensor] = {}
        calls: dict[BlockKey, list[InnerCall]] = {}
        outputs: dict[BlockKey, Tensor] = {}

        def note_state(site: Site, state: Tensor) -> None:
            trace.note(site, state)
            states[site] = torch.empty_like(state, device="meta")
            self.devices[site] = state.device

        def note_call(module: nn.Module, args: Any, output: Any) -> None:
            if self._entered is not None and isinstance(output, Tensor):
                calls.setdefault(self._entered, []).append(InnerCall(module, "norm" if is_norm(module) else "activation", args, output))

        receive, self.receive = self.receive, note_state
        channels, self.channels = self.channels, None  # maps are noted as they are
        # Hooks of a module run in the order in which they are added. These come before those of `attach`, which count the calls of blocks.
        extra = [m.register_forward_hook(self.guard.wrap(note_call)) for m in self._norms_and_activations()] if self.inner else []
        extra += [
            b.register_forward_hook(self._note_output(name, outputs)) for name, blocks in self.stacks.items() for b in _distinct(blocks)
        ]
        try:
            self.begin()
            with torch.inference_mode(), self.attach(), trace, mode or contextlib.nullcontext():
                run()
        finally:
            self.receive, self.channels = receive, channels
            for handle in extra:
                handle.remove()
        self.depth = dict(self.calls)
        self.layouts = self._find_layouts(trace)
        for block, inner_calls in calls.items():
            self._plan_inner(block, inner_calls, outputs[block])
        return self._shapes_to_receive(states, calls)

    def _shapes_to_receive(self, states: dict[Site, Tensor], calls: dict[BlockKey, list[InnerCall]]) -> dict[Site, Tensor]:
        """The shape of every state as later passes give it: channels first, and no norm between stages taken for the final one."""
        shapes = {}
        for site, state in states.items():
            if site.kind != "final" or site.layer == self.depth[site.stack] + 1:
                shapes[site] = self._channels_first(site, state)
        for (stack, layer), planned in self._planned.items():
            for inner in planned:
                last = [call for call in calls[stack, layer] if call.module is inner.module][-1]
                for side, state in (("before", last.args[0]), ("after", last.output)):
                    site, shape = Site(stack, f"{side}_{inner.role}", layer), torch.empty_like(state, device="meta")
                    shapes[site] = shape.movedim(-1, 1) if inner.turned else shape
                    self.devices[site] = state.device
        return shapes

    def _find_layouts(self, trace: ChannelTrace) -> dict[Site, str]:
        # While learning, a norm between stages looks like a final one: the depth is not known yet.
        finals = {Site(stack, "final", depth + 1) for stack, depth in self.depth.items()}
        maps = [site for site in trace.maps if site.kind != "final" or site in finals]
        if self.channels is None:
            return {site: trace.require_layout(site) for site in maps}
        # A final norm may read a permuted map, and the channels of its output then lie elsewhere than those of the blocks.
        return {site: trace.find_layout(site) or self.channels for site in maps if site in finals}

    def _norms_and_activations(self) -> list[nn.Module]:
        parts = {id(m): m for blocks in self.stacks.values() for _, b in blocks for m in b.modules() if m is not b}
        return [module for module in parts.values() if is_norm(module) or is_activation(module)]

    def _note_output(self, name: str, outputs: dict[BlockKey, Tensor]) -> Callable[..., None]:
        def hook(_: nn.Module, args: Any, output: Any) -> None:
            outputs[name, self.calls[name] + 1] = state_of(output)
            self.autocast |= autocast_dtypes()

        return self.guard.wrap(hook)

    def _plan_inner(self, block: BlockKey, calls: list[InnerCall], end: Tensor) -> None:
        """Choose the last norm and the last activation of a block whose output has the positions of the block's own."""
        stack, layer = block
        turned = False
        for role in ("norm", "activation"):
            # A module that gates a whole map has one position; it is not a state of the block.
            fitting = [(call, ways) for call in calls if call.role == role and (ways := _fitting_layouts(call.output, end))]
            if not fitting:
                continue
            last, ways = fitting[-1]
            if len(ways) == 1:
                turned = ways[0]
            elif isinstance(last.module, nn.LayerNorm):  # height, width and channels are equal: a layer norm reads the last axis
                turned = getattr(last.module, "data_format", "channels_last") == "channels_last"
            count = sum(1 for call in calls if call.module is last.module)
            self._planned.setdefault(block, []).append(Inner(last.module, role, count, turned))
            if role == "activation":
                level = activation_null(last.module)
                self.nulls[Site(stack, "after_activation", layer).label] = level
                if last.output.data_ptr() == end.data_ptr():
                    self.nulls |= {Site(stack, kind, layer).label: level for kind in ("hidden", "map")}

    def _deliver(self, site: Site, tensor: Tensor) -> None:
        started = time.perf_counter()
        with autocast_off():  # a model may turn it on in its own forward pass, and our products would be rounded as well
            self.receive(site, self._channels_first(site, tensor))
        self.seconds += time.perf_counter() - started

    def _channels_first(self, site: Site, state: Tensor) -> Tensor:
        last = self.layouts.get(site, self.channels) == "last"
        return state.movedim(-1, 1) if last and state.dim() == 4 else state

    @contextlib.contextmanager
    def attach(self) -> Iterator[None]:
        """Hooks are in place within this context, and compiled models run eagerly so that hooks are called.

        An exception of a hook is raised again when the context ends, even if the model has caught it.
        """
        handles = []
        for name, blocks in self.stacks.items():
            for block in _distinct(blocks):
                handles.append(block.register_forward_pre_hook(self._enter_block(name), with_kwargs=True))
                handles.append(block.register_forward_hook(self._leave_block(name)))
            handles += [norm.register_forward_hook(self._leave_norm(name)) for norm in self._norms[name]]
        for module in {id(inner.module): inner.module for inners in self._planned.values() for inner in inners}.values():
            handles.append(module.register_forward_pre_hook(self.guard.wrap(self._enter_inner)))
            handles.append(module.register_forward_hook(self.guard.wrap(self._leave_inner)))
        try:
            with torch.compiler.set_stance("force_eager"):
                yield
        finally:
            for handle in handles:
                handle.remove()
            self.guard.raise_own_error()

    def _enter_block(self, stack: str) -> Callable[..., None]:
        def hook(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            self._entered, self._within = (stack, self.calls[stack] + 1), {}
            by_name = kwargs.get("hidden_states", kwargs.get("hidden_state"))
            state = state_of(args or (tuple(kwargs.values()) if by_name is None else by_name))
            entered = Site(stack, "hidden", self.calls[stack])
            b, t = points_of(self._channels_first(entered, state)).shape[:2]
            self.width = b, t
            if self.calls[stack] == 0:
                self._deliver(entered, state)

        return self.guard.wrap(hook)

    def _leave_block(self, stack: str) -> Callable[..., None]:
        def hook(_: nn.Module, args: tuple[Any, ...], output: Any) -> None:
            self.calls[stack] += 1
            self._entered = None
            state = state_of(output)
            self._last[stack] = state
            self._deliver(Site(stack, "hidden", self.calls[stack]), state)

        return self.guard.wrap(hook)

    def _enter_inner(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        self._within[id(module)] = self._within.get(id(module), 0) + 1
        self._deliver_inner("before", module, args[0])

    def _leave_inner(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        self._deliver_inner("after", module, output)

    def _deliver_inner(self, side: str, module: nn.Module, state: Tensor) -> None:
        if self._entered is not None:
            stack, layer = self._entered
            for inner in self._planned.get(self._entered, ()):
                if inner.module is module and inner.call == self._within[id(module)]:
                    self._deliver(Site(stack, f"{side}_{inner.role}", layer), state.movedim(-1, 1) if inner.turned else state)

    def _leave_norm(self, stack: str) -> Callable[..., None]:
        def hook(_: nn.Module, args: tuple[Any, ...], output: Any) -> None:
            last = self._last.get(stack)
            # Only the norm that reads the very output of the last block is the final one; a norm between stages is not.
            is_after_last = self.calls[stack] == self.depth.get(stack, self.calls[stack])
            if is_after_last and last is not None and args and isinstance(args[0], Tensor) and args[0].data_ptr() == last.data_ptr():
                self._deliver(Site(stack, "final", self.calls[stack] + 1), state_of(output))

        return self.guard.wrap(hook)


def _fitting_layouts(inner: Tensor, end: Tensor) -> list[bool]:
    """The ways in which a state within a block has the positions of the block's own: as it is (False), or with channels last (True)."""
    positions = points_of(end).shape[:2]
    if inner.dim() != 4:
        return [False] if inner.dim() == end.dim() and points_of(inner).shape[:2] == positions else []
    if end.dim() != 4:
        return [turned for turned in (False, True) if points_of(inner.movedim(-1, 1) if turned else inner).shape[:2] == positions]
    return [turned for turned in (False, True) if (inner.movedim(-1, 1) if turned else inner).shape[2:] == end.shape[2:]]


def _distinct(blocks: Blocks) -> list[nn.Module]:
    return list({id(block): block for _, block in blocks}.values())


def autocast_dtypes() -> dict[str, str]:
    """The type in which autocast computes now, per type of device on which it is on."""
    return {device: str(torch.get_autocast_dtype(device)).removeprefix("torch.") for device in DEVICES if torch.is_autocast_enabled(device)}


@contextlib.contextmanager
def autocast_off() -> Iterator[None]:
    """Turn autocast off on every device within this context: it would round states and products without a trace in the results.

    A context nested in the caller's own neither reads nor clears the cache of cast weights, which belongs to the caller's forward pass.
    """
    with contextlib.ExitStack() as contexts:
        for device in autocast_dtypes():
            contexts.enter_context(torch.autocast(device, enabled=False))
        yield
