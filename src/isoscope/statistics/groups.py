"""Sums by groups of items: what an honest interval needs, because the tokens of one item are not independent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from isoscope.statistics.chance import margin
from isoscope.statistics.kernel import Floats, Sums

GROUPS = 64
WIDE = 1 << 15
"""Above this dimension there are fewer groups: a map of a million numbers times 64 would not fit."""


def groups_at(d: int) -> int:
    """How many groups of items are kept at this dimension.

    >>> groups_at(768), groups_at(802_816)
    (64, 8)
    """
    return GROUPS if d <= WIDE else 8


@dataclass
class Totals:
    """Sums over some of the groups. Leading axes are kept, so that one function serves the whole and every part left out."""

    n: Floats
    alive: Floats  # points with a direction
    total: Floats  # (…, d) Σx
    directions: Floats  # (…, d) Σu
    norm: Floats
    norm2: Floats
    within: Floats  # Σ_item ‖S_item‖², S an item's Σu
    pairs: Floats  # Σ_item n_item²


class Groups:
    """64 groups of items by hash (8 of wide points); for each slice n, Σu, Σx, Σ‖x‖, Σ‖x‖², and over items the products of the slices' Σu.

    The products S_a·S_b between slices are kept, so that any set of slices can be joined after the pass: an item's Σu under
    a policy is the sum over its slices. An item may arrive in parts; it is counted when its last part has come.
    """

    def __init__(self, d: int, slices: int = 1) -> None:
        self.d, self.slices, self.count = d, slices, groups_at(d)
        self.counts = np.zeros((4, slices, self.count))  # n, points with a direction, Σ‖x‖, Σ‖x‖²
        self.sums = np.zeros((2, slices, self.count, d))  # Σx, Σu
        self.products = np.zeros((2, self.count, slices, slices))  # Σ_item S_a·S_b, Σ_item n_a n_b
        self.units = np.zeros(self.count, dtype=np.int64)
        self._open: dict[int, tuple[Floats, Floats]] = {}
        self.waiting: set[int] = set()  # slices whose memory is to be taken with their first part

    def reserve(self, slice: int, *, when_used: bool = False) -> None:
        """Have all the memory of a slice, now or with its first part: the system gives it only as it is written."""
        if when_used and not self.counts[0, slice].any():
            self.waiting.add(slice)
        else:
            self.waiting.discard(slice)
            self.sums[:, slice] += 0.0

    def update(
        self, group: np.ndarray, parts: list[Sums | None], *, unit: np.ndarray | None = None, last: np.ndarray | None = None
    ) -> None:
        """Add segments.

        Args:
            group: (g,) the group of each segment.
            parts: for each slice its sums by segment, or None.
            unit: (g,) the item of each segment; None says that every point is an item of its own.
            last: (g,) whether this is the last segment of its item.
        """
        g, group = len(group), group % self.count
        directions, alive = np.zeros((g, self.slices, self.d)), np.zeros((g, self.slices))
        for s, part in enumerate(parts):
            if part is None:
                continue
            if s in self.waiting:
                self.reserve(s)
            directions[:, s], alive[:, s] = part.directions, part.n - part.zeros
            _scatter(self.counts[:, s].T, group, np.stack([part.n, alive[:, s], part.norm, part.norm2], axis=1))
            _scatter(self.sums[0, s], group, part.total)
            _scatter(self.sums[1, s], group, part.directions)
        if unit is None:
            for s in range(self.slices):
                _scatter(self.products[:, :, s, s].T, group, np.stack([alive[:, s]] * 2, axis=1))
            _scatter(self.units, group, alive.sum(1).astype(np.int64))
            return
        done = np.ones(g, dtype=bool) if last is None else last.copy()
        for i in range(g):
            key = int(unit[i])
            if not done[i] or key in self._open:
                before = self._open.pop(key, (np.zeros((self.slices, self.d)), np.zeros(self.slices)))
                directions[i] += before[0]
                alive[i] += before[1]
                if not done[i]:
                    self._open[key] = directions[i].copy(), alive[i].copy()
        S, N = directions[done], alive[done]
        _scatter(self.products[0], group[done], S @ S.transpose(0, 2, 1))
        _scatter(self.products[1], group[done], N[:, :, None] * N[:, None, :])
        _scatter(self.units, group[done], np.ones(len(S), dtype=np.int64))

    def merge(self, other: Groups) -> Groups:
        """The groups of both streams; neither is changed."""
        merged = Groups(self.d, self.slices)
        for name in ("counts", "sums", "products", "units"):
            setattr(merged, name, getattr(self, name) + getattr(other, name))
        for part in (self, other):
            for key, (directions, alive) in part._open.items():
                before = merged._open.get(key, (0.0, 0.0))
                merged._open[key] = directions + before[0], alive + before[1]
        return merged

    def join(self, chosen: list[int]) -> Groups:
        """One slice that holds the chosen ones together."""
        joined = Groups(self.d, 1)
        joined.counts = self.counts[:, chosen].sum(1, keepdims=True)
        joined.sums = self.sums[:, chosen].sum(1, keepdims=True)
        joined.products = self.products[:, :, chosen][:, :, :, chosen].sum((2, 3), keepdims=True)
        joined.units = self.units
        return joined

    def _totals(self, over: Callable[[Floats], Floats]) -> Totals:
        n, alive, norm, norm2 = (over(part[0]) for part in self.counts)
        total, directions = (over(part[0]) for part in self.sums)
        within, pairs = (over(part[:, 0, 0]) for part in self.products)
        return Totals(n, alive, total, directions, norm, norm2, within, pairs)

    @property
    def totals(self) -> Totals:
        """The sums over all groups (of the first slice: `join` first)."""
        return self._totals(lambda part: part.sum(0))

    def interval(self, estimate: Callable[[Totals], Floats]) -> tuple[float, float]:
        """A 95 % interval by the delete-a-group jackknife, the spread of the estimates with one group left out.

        Student's t has one degree less than the effective number of groups, n²/Σn_g²: where documents differ much in length, few
        groups carry most points. NaN where fewer than three groups hold points.
        """
        filled = self.counts[0, 0] > 0
        sizes = self.counts[0, 0][filled]
        G = len(sizes)
        if G < 3:
            return np.nan, np.nan
        with np.errstate(invalid="ignore", divide="ignore"):
            whole = float(estimate(self.totals))
            left_out = np.asarray(estimate(self._totals(lambda part: part.sum(0) - part[filled])))
        variance = float(((left_out - whole) ** 2).sum()) * (G - 1) / G
        effective = float(sizes.sum() ** 2 / (sizes**2).sum())
        half = margin(variance**0.5, effective - 1)
        return whole - half, whole + half

    def state(self) -> dict[str, np.ndarray]:
        """Everything as arrays, by name; an item whose last part has not come is kept apart."""
        state = {"counts": self.counts, "sums": self.sums, "products": self.products, "units": self.units}
        if self._open:
            state["open_units"] = np.array(list(self._open), dtype=np.int64)
            state["open_directions"] = np.stack([directions for directions, _ in self._open.values()])
            state["open_alive"] = np.stack([alive for _, alive in self._open.values()])
        return state

    @classmethod
    def from_state(cls, state: dict[str, np.ndarray]) -> Groups:
        """The inverse of `state`."""
        self = cls(state["sums"].shape[-1], state["sums"].shape[1])
        for name in ("counts", "sums", "products", "units"):
            setattr(self, name, state[name].copy())
        if "open_units" in state:
            rows = zip(state["open_units"], state["open_directions"], state["open_alive"], strict=True)
            self._open = {int(key): (directions.copy(), alive.copy()) for key, directions, alive in rows}
        return self


def _scatter(target: np.ndarray, group: np.ndarray, values: np.ndarray) -> None:
    """Add each value to its group, in place: by rows where they are few, by a product with the membership where they are many."""
    if len(group) <= len(target):
        for i, g in enumerate(group):
            target[g] += values[i]
    else:
        members = (np.arange(len(target))[:, None] == group).astype(np.float64)
        target += np.tensordot(members, values, 1).astype(target.dtype)
