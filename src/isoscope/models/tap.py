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
from isoscope.models.blocks import find_blocks, find_norms
from isoscope.statistics.kernel import Sums, as_block, block_sums, to_host
from isoscope.statistics.site_statistics import SiteStatistics

DENSE = 0.3
"""A slice of more than this part of a batch is reduced under a mask; a smaller one is gathered first."""
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


class Tap:
    """Hooks on the blocks of every stack. `receive(site, tensor)` gets each hidden state, once, in the order of the pass."""

    def __init__(self, stacks: dict[str, nn.Module], receive: Callable[[Site, Tensor], None]) -> None:
        self.receive = receive
        self.stacks = {name: (blocks := find_blocks(stack, name), find_norms(stack, blocks)) for name, stack in stacks.items()}
        self.calls: dict[str, int] = {}
        self._last: dict[str, Any] = {}
        self.seconds = 0.0

    def begin(self) -> None:
        """A new forward pass."""
        self.calls = dict.fromkeys(self.stacks, 0)
        self._last = {}

    def _give(self, site: Site, tensor: Tensor) -> None:
        started = time.perf_counter()
        self.receive(site, tensor)
        self.seconds += time.perf_counter() - started

    @contextlib.contextmanager
    def attached(self) -> Iterator[None]:
        """The hooks are in place within this context, and compiled models run eagerly so that hooks are called."""
        handles = []
        for name, (blocks, norms) in self.stacks.items():
            for block in {id(block): block for block in blocks}.values():
                handles.append(block.register_forward_pre_hook(self._before(name), with_kwargs=True))
                handles.append(block.register_forward_hook(self._after(name)))
            handles += [norm.register_forward_hook(self._norm(name)) for norm in norms]
        try:
            with torch.compiler.set_stance("force_eager"):
                yield
        finally:
            for handle in handles:
                handle.remove()

    def _before(self, stack: str) -> Callable[..., None]:
        def hook(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if self.calls[stack] == 0:
                self._give(Site(stack, "hidden", 0), _state(args or (kwargs.get("hidden_states"),)))

        return hook

    def _after(self, stack: str) -> Callable[..., None]:
        def hook(_: nn.Module, args: tuple[Any, ...], output: Any) -> None:
            self.calls[stack] += 1
            state = _state(output)
            self._last[stack] = state
            self._give(Site(stack, "hidden", self.calls[stack]), state)

        return hook

    def _norm(self, stack: str) -> Callable[..., None]:
        def hook(_: nn.Module, args: tuple[Any, ...], output: Any) -> None:
            last = self._last.get(stack)
            if last is not None and args and isinstance(args[0], Tensor) and args[0].data_ptr() == last.data_ptr():
                self._give(Site(stack, "final", self.calls[stack]), _state(output))

        return hook


def _state(output: Any) -> Tensor:
    """The hidden state (b, t, d) in what a block was given or gave."""
    for candidate in output if isinstance(output, tuple | list) else [output]:
        if isinstance(candidate, Tensor) and candidate.dim() == 3 and candidate.is_floating_point():
            return candidate
    raise IsoscopeError("A block gives no tensor of shape (batch, positions, dimensions); this model needs a family of its own.")


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
            raise IsoscopeError(
                f"{model} gives NaN or infinity at {site.label}: {sums.nonfinite} of {len(positions)} {statistics.names[code]} "
                "vectors of one batch. Nothing was averaged; try --dtype float32."
            )
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
    for name in ("n", "zeros", "total", "directions", "norm", "norm2"):
        getattr(sums, name)[owner[starts]] = np.add.reduceat(getattr(each, name), starts)
    sums.squared, sums.nonfinite = each.squared, each.nonfinite
    return sums
