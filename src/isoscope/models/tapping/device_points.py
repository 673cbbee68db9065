"""Points reduced where they are: a few operations of torch for each state, and none of them asks for a value.

A state is read five times: for its norms, to subtract the shift, to square, to add up, and for the products. What comes after that is small
and is done for all states of a forward pass together.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isoscope.core.errors import IsoscopeError
from isoscope.models.tapping.batch_plan import BatchPlan, Planner
from isoscope.models.tapping.device_memory import DeviceMemory, HostMemory, column_products, products_size, symmetric_matrix
from isoscope.models.tapping.layout import Layout
from isoscope.statistics.jackknife_groups import PRODUCTS, Groups
from isoscope.statistics.second_moment import SecondMoment
from isoscope.statistics.site_statistics import SiteStatistics

SMALL_D = 256
"""Up to this dimension products are taken in float64: such models are quick anyway, and their small spectra show every rounding."""
WAITING = 1 << 24
"""The most numbers of states that are kept before they are added to the sums."""


class PointBank:
    """The statistics of many channels, which see the same positions: the layers of a stack, or the heads of all its layers.

    A point x is added up as y = x − c, where the shift c is the mean of the first batch: products of y keep their digits in float32.
    """

    def __init__(self, memory: DeviceMemory, d: int, names: list[str], *, groups: int, second: bool, sample: int, double: bool) -> None:
        self.memory, self.d, self.names, self.groups, self.second = memory, d, names, groups, second
        self.channels = 0
        wide = memory.dtype == torch.float64
        self.dtype = torch.float64 if wide and (double or d <= SMALL_D) else torch.float32
        self.point_dtype = torch.float64 if double else torch.float32
        self.k = sample
        self._fields: dict[str, int] = {}

    def add_channels(self, count: int) -> int:
        """Make room for more channels, and return the first of them."""
        self.channels += count
        return self.channels - count

    def declare(self) -> None:
        """Declare all arrays."""
        c, s, g, d, memory = self.channels, len(self.names), self.groups, self.d, self.memory
        shapes: dict[str, tuple[int, ...]] = {
            "counts": (c, g, 4, s),  # points with a direction, all points, Σ‖x‖, Σ‖x‖²
            "bad": (c, s),
            "sums": (c, g, s, 2, d),  # Σu, Σx
            "squared": (c, s, d),
            "products": (c, g, PRODUCTS, s, s),
        }
        if self.second:
            shapes |= {"moved": (c, s, d), "outer": (c, s, products_size(d) if c else 0)}  # Σ(x−c), Σ(x−c)(x−c)ᵀ
        self._fields = {name: memory.declare_sums(*shape) for name, shape in shapes.items()}
        self._fields["shift"] = memory.declare(c, s, d, dtype=self.dtype)
        self._fields["sample"] = memory.declare(c, self.k, d, dtype=self.point_dtype)

    def begin(self) -> None:
        """Start with empty statistics in memory that is zero."""
        memory = self.memory
        self.planner = Planner(len(self.names), self.groups, self.k, memory.device, memory.dtype)
        self._sums = {name: memory.sums(number) for name, number in self._fields.items() if name not in ("shift", "sample")}
        self._shift, self._sample = memory.tensor(self._fields["shift"]), memory.tensor(self._fields["sample"])
        self._exponents = torch.arange(0, -3, -1, dtype=memory.dtype, device=memory.device)[:, None]
        self._shifted = np.zeros((self.channels, len(self.names)), dtype=bool)
        self._open: Tensor | None = None
        self._plans: dict[int, tuple[Layout, BatchPlan]] = {}
        self._seen: Counter[int] = Counter()
        self._plan: BatchPlan | None = None
        self._first = self._stop = 0
        self._waiting: list[tuple[Tensor, list[Tensor], list[Tensor], Tensor]] = []

    def end_batch(self) -> None:
        """Add everything that waits; the next layouts are those of another batch."""
        self.flush()
        # The items, and the points of the sample, were planned for all channels at once.
        if any(seen != self.channels for seen in self._seen.values()):
            raise IsoscopeError(
                "States of equal width see different positions in one batch, which cannot be measured where they lie; use --device cpu."
            )
        self._plans.clear()
        self._seen.clear()
        self._plan = None

    def reduce(self, first: int, x: Tensor, layout: Layout) -> None:
        """Add the points (b, h, t, d) to h channels. All channels must see the same layouts in the same order."""
        if id(layout) not in self._plans:
            self._plans[id(layout)] = layout, self.planner.plan(layout)
        plan = self._plans[id(layout)][1]
        self._seen[id(layout)] += x.shape[1]
        if first != self._stop or plan is not self._plan:
            self.flush()
        self._plan = plan
        x = x.transpose(0, 1)
        h, b, t, d = x.shape
        if not self._waiting:
            self._first = self._stop = first
        # In float64 no norm overflows or vanishes; the points themselves need not be converted for it.
        norms = torch.linalg.vector_norm(x, dim=-1, dtype=self.memory.dtype)
        weights: Tensor = torch.empty((h, b, 3, t), dtype=self.dtype, device=x.device)
        if plan.dense:
            # 1, 1/‖x‖ and 1/‖x‖², for Σy, Σu and Σu². Points without a direction get 0, and so do NaN and infinity, which y still holds.
            torch.pow(norms[:, :, None], self._exponents, out=weights)
            weights.nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0)
        sums, products = [], []
        for code, outside in plan.dense.items():
            if self._is_new(slice(first, first + h), code):
                points = x.to(self.dtype, copy=True, memory_format=torch.contiguous_format)
                self._set_shift(slice(first, first + h), code, _without(points, outside), plan)
            both = torch.empty((h, b, t, 2 * d), dtype=self.dtype, device=x.device)
            y = both[..., :d]
            torch.sub(x, self._shift[first : first + h, code, None, None], out=y)
            _without(y, outside)
            torch.mul(y, y, out=both[..., d:])
            sums.append(torch.bmm(weights.view(h * b, 3, t), both.view(h * b, t, 2 * d)).view(h, b, 3, 2 * d))
            if self.second:
                products.append(column_products(both.view(h, b * t, 2 * d)[..., :d]))
        self._waiting.append((norms, sums, products, x[:, plan.pick_rows, plan.pick_columns]))
        self._stop = first + h
        sizes = (2 * b * plan.slices + plan.picks) * d, self.second * len(plan.dense) * products_size(d)
        if (self._stop - self._first) * sum(sizes) > WAITING:
            self.flush()

    def _is_new(self, channels: slice, code: int) -> bool:
        """Whether this slice of these channels gets a shift only now."""
        is_new = not self._shifted[channels, code].all()
        self._shifted[channels, code] = True
        return is_new

    def _set_shift(self, channels: slice, code: int, points: Tensor, plan: BatchPlan) -> None:
        """Take the mean of the points (c, …, d) as shift; others than those of the slice are zero."""
        mean = points.sum(tuple(range(1, points.dim() - 1)), dtype=self.memory.dtype) / int(plan.counts[code])
        # Rounded so that x − c is exact to the last digit of its own size, in float32 too.
        self._shift[channels, code] = mean.float().to(self.dtype)

    def flush(self) -> None:
        """Add what waits to the sums of its channels."""
        if not self._waiting or self._plan is None:
            return
        plan, at, d, s = self._plan, slice(self._first, self._stop), self.d, len(self.names)
        norms = torch.cat([part[0] for part in self._waiting])
        few = torch.cat([part[3] for part in self._waiting])
        if plan.padded:
            norms = norms.masked_fill(plan.padding, 0.0)
        inverse = norms.reciprocal().nan_to_num_(nan=0.0, posinf=0.0)
        columns = torch.stack([norms < torch.inf, inverse > 0, norms, norms * norms, inverse, inverse * inverse], 2)
        by_slice = torch.einsum("cbkt,bst->cbks", columns, plan.members)
        c, b = len(norms), len(plan.points)
        totals = norms.new_zeros((c, b, s, 2, d))
        squared = norms.new_zeros((c, s, d))
        for number, code in enumerate(plan.dense):
            sums = torch.cat([part[1][number] for part in self._waiting]).to(norms.dtype)
            shift = self._shift[at, code, None].to(norms.dtype)
            inverse_sums = by_slice[:, :, 4:, code, None]
            # Σ(y + c), Σw(y + c) and Σw²(y + c)²
            totals[:, :, code, 1] = sums[:, :, 0, :d] + plan.points[:, code, None] * shift
            totals[:, :, code, 0] = sums[:, :, 1, :d] + inverse_sums[:, :, 0] * shift
            squared[:, code] = (sums[:, :, 2, d:] + shift * (2 * sums[:, :, 2, :d] + inverse_sums[:, :, 1] * shift)).sum(1)
            if self.second:
                self._sums["moved"].add((at, code), sums[:, :, 0, :d].sum(1))
                self._sums["outer"].add((at, code), torch.cat([part[2][number] for part in self._waiting]))
        if plan.rare:
            self._add_rare(plan, at, few[:, : len(plan.rare_codes)].to(norms.dtype), inverse.flatten(1), totals, squared)
        finite, alive, norm, norm2 = by_slice[:, :, :4].unbind(2)
        counts = torch.stack([alive, plan.points.expand(c, -1, -1), norm, norm2], 2)
        self._sums["bad"].add(at, (plan.points - finite).sum(1))
        self._sums["counts"].index_add(at, plan.group, counts)
        self._sums["sums"].index_add(at, plan.group, totals)
        self._sums["squared"].add(at, squared)
        self._add_items(plan, at, totals, counts[:, :, :2])
        if len(plan.rows):
            self._sample[at].index_copy_(1, plan.rows, few[:, len(plan.rare_codes) :].to(self.point_dtype))
        self._waiting = []

    def _add_rare(self, plan: BatchPlan, at: slice, rows: Tensor, inverse: Tensor, totals: Tensor, squared: Tensor) -> None:
        """Add the points (c, m, d) of slices that fill little of the batch, in the precision of the sums."""
        units = rows * inverse.index_select(1, plan.rare_positions)[..., None]
        totals.flatten(1, 2).index_add_(1, plan.rare_cells, torch.stack([units, rows], 2))
        squared.index_add_(1, plan.rare_codes, units * units)
        if not self.second:
            return
        for code, span in plan.rare.items():
            if self._is_new(at, code):
                self._set_shift(at, code, rows[:, span], plan)
            y = rows[:, span] - self._shift[at, code, None]
            self._sums["moved"].add((at, code), y.sum(1))
            self._sums["outer"].add((at, code), column_products(y))

    def _add_items(self, plan: BatchPlan, at: slice, totals: Tensor, counts: Tensor) -> None:
        """Collect the sums of items, Σu and Σx of (c, b, slices, 2, d) and their numbers (c, b, 2, slices), and add the products of those
        that end in this batch."""
        s, d = len(self.names), self.d
        values = torch.cat([totals.transpose(2, 3), counts[..., None]], -1)  # (c, b, 2, slices, d + 1)
        if len(plan.alone):
            self._add_products(at, values if not len(plan.parts) else values.index_select(1, plan.alone), plan.alone_group)
        if not len(plan.parts):
            return
        if self._open is None or self._open.shape[1] < self.planner.places:
            grown = values.new_zeros((self.channels, self.planner.places, 2, s, d + 1))
            if self._open is not None:
                grown[:, : self._open.shape[1]] = self._open
            self._open = grown
        self._open[at].index_add_(1, plan.place, values.index_select(1, plan.parts))
        if not len(plan.done):
            return
        self._add_products(at, self._open[at].index_select(1, plan.done), plan.done_group)
        self._open[at].index_fill_(1, plan.done, 0.0)

    def _add_products(self, at: slice, items: Tensor, group: Tensor) -> None:
        """Add the products of whole items (c, m, 2, slices, d + 1) to their groups."""
        points, numbers = items[..., : self.d], items[..., self.d]
        products = torch.stack([points @ points.mT, numbers[..., None] * numbers[..., None, :]], 3)
        self._sums["products"].index_add(at, group, products.flatten(2, 3))

    def bad(self, memory: HostMemory) -> np.ndarray:
        """(channels, slices) how many points were NaN or infinite."""
        return np.asarray(memory.sums(self._fields["bad"]).round().astype(np.int64))

    def statistics(self, memory: HostMemory, channel: int) -> SiteStatistics:
        """The statistics of a channel, on the host."""
        arrays: dict[str, Any] = {name: memory.sums(number)[channel] for name, number in self._fields.items() if name in self._sums}
        shift, sample = (memory.array(self._fields[name])[channel] for name in ("shift", "sample"))
        statistics = SiteStatistics(self.d, self.names, second=False, sample=0)
        groups = Groups(self.d, len(self.names))
        groups.count, groups.units = self.groups, self.planner.units.copy()
        groups.counts = arrays["counts"].transpose(1, 2, 0)[[1, 0, 2, 3]]
        groups.counts[:2] = groups.counts[:2].round()
        groups.sums = arrays["sums"].transpose(2, 1, 0, 3)[::-1].copy()
        groups.products = arrays["products"].swapaxes(0, 1).copy()
        statistics.groups = groups
        for code, moments in enumerate(statistics.moments):
            n, alive, norm, norm2 = groups.counts[:, code].sum(1)
            moments.n, moments.zeros, moments.norm, moments.norm2 = round(n), round(n - alive), float(norm), float(norm2)
            moments.total, moments.directions = groups.sums[:, code].sum(1)
            moments.squared = arrays["squared"][code]
            if self.second:
                moments.second = second = SecondMoment(self.d)
                if moments.n:
                    second.n, second.shift, second.total = moments.n, shift[code].astype(np.float64), arrays["moved"][code]
                    second.outer = symmetric_matrix(arrays["outer"][code], self.d)
                    second.step = float(torch.finfo(self.dtype).eps)
        statistics.sample = self.planner.sample.sample(sample) if self.k else None
        return statistics


def _without(points: Tensor, positions: Tensor | None) -> Tensor:
    """Set the points (h, b, t, d) at these flat positions to zero, in place."""
    if positions is not None:
        points.flatten(1, 2).index_fill_(1, positions, 0.0)
    return points
