"""The statistics of sites whose states lie on a device: where each site is kept there, and all of them on the host in one transfer."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from isoscope.core.site import Site
from isoscope.models.tapping import torch_functions
from isoscope.models.tapping.attention_call import AttentionCall
from isoscope.models.tapping.device_memory import DeviceMemory
from isoscope.models.tapping.device_points import PointBank
from isoscope.models.tapping.device_rows import RowBank
from isoscope.models.tapping.layout import Layout
from isoscope.models.tapping.reduction import not_finite
from isoscope.statistics.any_statistics import Statistics, merge_statistics
from isoscope.statistics.attention_statistics import AttentionStatistics
from isoscope.statistics.head_statistics import Heads
from isoscope.statistics.site_statistics import SiteStatistics


@contextlib.contextmanager
def full_float32() -> Iterator[None]:
    """Take products of float32 in float32 within this context: the user may have allowed shorter types (TF32, bfloat16) for speed."""
    before = torch.get_float32_matmul_precision()
    if before == "highest":
        yield
        return
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@dataclass(frozen=True)
class Origin:
    """Where the states of a site come from, as one forward pass shows it."""

    device: torch.device
    dtype: torch.dtype
    shape: tuple[int, int]
    """Rows and positions: sites with equal ones share a bank."""
    on_host: bool
    """Whether compiled code on the host reduces them."""

    @classmethod
    def of(cls, state: Tensor, device: torch.device | None = None) -> Origin:
        """The origin of a state (b, …, t, d), or of one like it that lies on another device."""
        device = device or state.device
        return cls(device, state.dtype, (state.shape[0], state.shape[-2]), device.type in torch_functions.HOST_DEVICES)


class DeviceStatistics:
    """The sites that are reduced on devices. Each has empty statistics on the host too, to which `collect` adds what the device holds."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all sites, and let go of their memory."""
        self._memories: dict[torch.device, DeviceMemory] = {}
        self._banks: dict[tuple[object, ...], PointBank] = {}
        self._rows: dict[tuple[object, ...], RowBank] = {}
        self._channels: dict[Site, tuple[PointBank, int, int]] = {}
        self._heads: dict[Site, tuple[RowBank, slice]] = {}

    def add_rows(self, site: Site, origin: Origin, statistics: AttentionStatistics) -> None:
        """Make room for the rows of an attention whose queries come from there."""
        key = (origin.device, site.stack, site.kind, origin.shape, *statistics.names)
        if key not in self._rows:
            memory = self._memories.setdefault(origin.device, DeviceMemory(origin.device))
            self._rows[key] = RowBank(memory, statistics.names)
        first = self._rows[key].add_channels(statistics.h)
        self._heads[site] = self._rows[key], slice(first, first + statistics.h)

    def add(self, site: Site, origin: Origin, statistics: SiteStatistics | Heads) -> None:
        """Make room for a site; `statistics` are its empty ones on the host."""
        of_heads = isinstance(statistics, Heads)
        parts = statistics.split() if isinstance(statistics, Heads) else [statistics]
        groups, second = parts[0].groups, parts[0].moments[0].second is not None
        assert groups is not None
        k, double = 0 if parts[0].sample is None else parts[0].sample.k, origin.dtype == torch.float64
        # Queries and keys see the same positions if they attend within a stack.
        stream = (site.stack, site.kind if site.kind.startswith("cross") or site.kind == "map" else "", origin.shape)
        key = (origin.device, double, of_heads, stream, parts[0].d, *parts[0].names, second, k)
        if key not in self._banks:
            memory = self._memories.setdefault(origin.device, DeviceMemory(origin.device))
            count = len(groups.units)
            self._banks[key] = PointBank(memory, parts[0].d, parts[0].names, groups=count, second=second, sample=k, double=double)
        bank = self._banks[key]
        self._channels[site] = bank, bank.add_channels(len(parts)), len(parts)

    def __contains__(self, site: Site) -> bool:
        return site in self._channels or site in self._heads

    def allocate(self) -> None:
        """Allocate the memory of all sites."""
        for bank in self._all_banks:
            bank.declare()
        for memory in self._memories.values():
            memory.clear()
        for bank in self._all_banks:
            bank.begin()

    @property
    def _all_banks(self) -> list[PointBank | RowBank]:
        return [*self._banks.values(), *self._rows.values()]

    def reduce(self, sites: list[Site], tensors: list[Tensor], layout: Layout) -> list[Tensor]:
        """Add points (b, h, t, d) to sites that were added one after the other, and return them, in new memory if they had to be joined.

        h is 1 for states, and the number of heads for queries and keys.
        """
        bank, first, _ = self._channels[sites[0]]
        if len(tensors) > 1:
            joined = torch.cat([tensor.transpose(0, 1) for tensor in tensors]).transpose(0, 1)
            tensors = list(joined.split([tensor.shape[1] for tensor in tensors], 1))
        with torch.inference_mode(), full_float32():
            bank.reduce(first, joined if len(tensors) > 1 else tensors[0], layout)
        return tensors

    def share_bank(self, sites: list[Site]) -> bool:
        """Whether sites lie side by side in one bank, so that they can be reduced together."""
        places = [self._channels[site] for site in sites]
        return all(a[0] is b[0] and a[1] + a[2] == b[1] for a, b in pairwise(places))

    def end_batch(self) -> None:
        """Add what still waits, after a forward pass."""
        with torch.inference_mode(), full_float32():
            for bank in self._all_banks:
                bank.end_batch()

    def reduce_rows(self, site: Site, call: AttentionCall, layout: Layout, rows: np.ndarray | None, few: np.ndarray) -> None:
        """Add the rows of a call to its site: all, or those numbered in `rows`; the scores of `few` rows are counted."""
        bank, heads = self._heads[site]
        with torch.inference_mode(), full_float32():
            bank.reduce(heads.start, call, layout, rows, few)

    def collect(self, statistics: Statistics, model: str) -> Statistics:
        """These statistics and what the devices hold, together; one transfer per device. NaN and infinity are reported here."""
        collected = dict(statistics)
        read = {device: memory.read() for device, memory in self._memories.items()}
        for site, (bank, first, count) in self._channels.items():
            host = read[bank.memory.device]
            for name, bad in zip(bank.names, bank.bad(host)[first : first + count].sum(0), strict=True):
                if bad:
                    raise not_finite(model, site, f"{bad} {name} vectors")
            parts = [bank.statistics(host, channel) for channel in range(first, first + count)]
            part = Heads.from_heads(parts) if isinstance(statistics[site], Heads) else parts[0]
            collected[site] = merge_statistics(statistics[site], part)
        for site, (rows, heads) in self._heads.items():
            if bad := rows.bad(read[rows.memory.device], heads):
                raise not_finite(model, site, f"{bad} rows of attention, over all heads")
            empty = statistics[site]
            assert isinstance(empty, AttentionStatistics)
            collected[site] = merge_statistics(empty, rows.statistics(read[rows.memory.device], heads, empty))
        return collected
