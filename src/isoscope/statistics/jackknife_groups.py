"""Sums by groups of items. An honest interval needs them, because the tokens of one item are not independent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from isoscope.core.numerics import Floats, margin
from isoscope.statistics.kernel import Sums

GROUPS = 64
WIDE = 1 << 15
"""Above this dimension there are fewer groups: a map of a million numbers times 64 would not fit."""

PRODUCTS = 4
"""Sums over items: S_a·S_b of Σu and n_a·n_b of points with a direction; X_a·X_b of Σx and n_a·n_b of all points."""


def groups_at(d: int) -> int:
    """Return how many groups of items are kept at this dimension.

    >>> groups_at(768), groups_at(802_816)
    (64, 8)
    """
    return GROUPS if d <= WIDE else 8


@dataclass
class Totals:
    """Sums over some of the groups. Leading axes are kept, so that one function serves the whole and every leave-one-out."""

    n: Floats
    alive: Floats  # points with a direction
    total: Floats  # (…, d) Σx
    directions: Floats  # (…, d) Σu
    norm: Floats
    norm2: Floats
    within: Floats  # Σ_item ‖S_item‖², S an item's Σu
    pairs: Floats  # Σ_item n_item², of points with a direction
    raw_within: Floats  # Σ_item ‖X_item‖², X an item's Σx
    raw_pairs: Floats  # Σ_item n_item², of all points

    @property
    def squared_mean(self) -> Floats:
        """‖μ‖² without bias: the average of xᵢ·xⱼ over pairs of points from different items.

        ‖x̄‖² also holds the pairs within an item, which are alike whatever μ is. By chance this average may lie below 0 where μ is near 0.
        """
        return np.asarray(((self.total**2).sum(-1) - self.raw_within) / (self.n**2 - self.raw_pairs))


class Groups:
    """64 groups of items by hash (8 of wide points); per slice n, Σu, Σx, Σ‖x‖, Σ‖x‖², and over items the products of the slices' sums.

    The products S_a·S_b and X_a·X_b between slices are kept, so that any set of slices can be joined after the pass: an item's Σu (or
    Σx) under a policy is the sum over its slices. An item may arrive in parts; it is counted when its last part has come.
    """

    def __init__(self, d: int, slices: int = 1) -> None:
        self.d, self.slices, self.count = d, slices, groups_at(d)
        self.counts = np.zeros((4, slices, self.count))  # n, points with a direction, Σ‖x‖, Σ‖x‖²
        self.sums = np.zeros((2, slices, self.count, d))  # Σx, Σu
        self.products = np.zeros((PRODUCTS, self.count, slices, slices))
        self.units = np.zeros(self.count, dtype=np.int64)
        self._open: dict[int, tuple[Floats, Floats]] = {}

    def update(
        self, group: np.ndarray, parts: list[Sums | None], *, unit: np.ndarray | None = None, last: np.ndarray | None = None
    ) -> None:
        """Add segments.

        Args:
            group: (g,) the group of each segment.
            parts: for each slice its sums by segment, or None.
            unit: (g,) the item of each segment; by default every point is an item of its own.
            last: (g,) whether this is the last segment of its item.
        """
        g, group = len(group), group % self.count
        present = [(s, part, part.n - part.zeros) for s, part in enumerate(parts) if part is not None]
        for s, part, alive in present:
            _scatter(self.counts[:, s].T, group, np.stack([part.n, alive, part.norm, part.norm2], axis=1))
            _scatter(self.sums[0, s], group, part.total)
            _scatter(self.sums[1, s], group, part.directions)
        if unit is None:
            # A point that is its own item: ‖u‖² and n² are both 1, so their sums are counts, and ‖X‖² is ‖x‖².
            for s, part, alive in present:
                _scatter(self.products[:, :, s, s].T, group, np.stack([alive, alive, part.norm2, part.n], axis=1))
                _scatter(self.units, group, alive.astype(np.int64))
            return
        sums, counts = np.zeros((g, 2, self.slices, self.d)), np.zeros((g, 2, self.slices))  # of u and points with one, of x and all points
        for s, part, alive in present:
            sums[:, 0, s], sums[:, 1, s] = part.directions, part.total
            counts[:, 0, s], counts[:, 1, s] = alive, part.n
        # ‖S_item‖² is quadratic: adding it part by part would lose the cross terms between the parts of one item. So a sequence that is
        # not its item's last one waits, and the products are taken once from the sums of the whole item.
        done = np.ones(g, dtype=bool) if last is None else last.copy()
        for i in range(g):
            key = int(unit[i])
            if not done[i] or key in self._open:
                before = self._open.pop(key, (0.0, 0.0))
                sums[i] += before[0]
                counts[i] += before[1]
                if not done[i]:
                    self._open[key] = sums[i].copy(), counts[i].copy()
        for kind in (0, 1):
            S, N = sums[done, kind], counts[done, kind]
            _scatter(self.products[2 * kind], group[done], S @ S.transpose(0, 2, 1))
            _scatter(self.products[2 * kind + 1], group[done], N[:, :, None] * N[:, None, :])
        _scatter(self.units, group[done], np.ones(int(done.sum()), dtype=np.int64))

    def merge(self, other: Groups) -> Groups:
        """The groups of both streams; neither is changed."""
        merged = Groups(self.d, self.slices)
        for name in ("counts", "sums", "products", "units"):
            setattr(merged, name, getattr(self, name) + getattr(other, name))
        for part in (self, other):
            for key, (sums, counts) in part._open.items():
                before = merged._open.get(key, (0.0, 0.0))
                merged._open[key] = sums + before[0], counts + before[1]
        return merged

    def join(self, chosen: list[int]) -> Groups:
        """One slice that holds the chosen ones together."""
        joined = Groups(self.d, 1)
        joined.counts = self.counts[:, chosen].sum(1, keepdims=True)
        joined.sums = self.sums[:, chosen].sum(1, keepdims=True)
        joined.products = self.products[:, :, chosen][:, :, :, chosen].sum((2, 3), keepdims=True)
        joined.units = self.units  # counts items, whatever slices their points are in
        return joined

    def _totals(self, over: Callable[[Floats], Floats]) -> Totals:
        n, alive, norm, norm2 = (over(part[0]) for part in self.counts)
        total, directions = (over(part[0]) for part in self.sums)
        return Totals(n, alive, total, directions, norm, norm2, *(over(part[:, 0, 0]) for part in self.products))

    @property
    def totals(self) -> Totals:
        """The sums over all groups (of the first slice: `join` first)."""
        return self._totals(lambda part: part.sum(0))

    def interval(self, estimate: Callable[[Totals], Floats]) -> tuple[float, float]:
        """A 95 % interval by the delete-a-group jackknife, the spread of the estimates with one group left out.

        Student's t has one degree less than the effective number of groups, n²/Σn_g²: where documents differ much in length, few
        groups carry most points. NaN where fewer than three groups hold points.
        """
        sizes = self.counts[0, 0][self.counts[0, 0] > 0]
        G = len(sizes)
        if G < 3:
            return np.nan, np.nan
        with np.errstate(invalid="ignore", divide="ignore"):
            whole = float(estimate(self.totals))
        left_out = self.left_out(estimate)[1]
        # About the whole estimate, not about the mean of the others: this is never smaller, and includes the bias of a curved estimate.
        variance = float(((left_out - whole) ** 2).sum()) * (G - 1) / G
        half = margin(variance**0.5, effective_groups(sizes) - 1)
        return whole - half, whole + half

    def left_out(self, estimate: Callable[[Totals], Floats]) -> tuple[np.ndarray, Floats]:
        """The groups that hold points, and the estimate without each of them."""
        filled = np.flatnonzero(self.counts[0, 0] > 0)
        # The total minus each group, for all groups along the first axis: one call of `estimate` instead of 64 sums over 63 groups.
        with np.errstate(invalid="ignore", divide="ignore"):
            return filled, np.asarray(estimate(self._totals(lambda part: part.sum(0) - part[filled])))

    def state(self) -> dict[str, np.ndarray]:
        """Everything as arrays, by name; the sums of items that are still incomplete are stored apart."""
        state = {"counts": self.counts, "sums": self.sums, "products": self.products, "units": self.units}
        if self._open:
            state["open_units"] = np.array(list(self._open), dtype=np.int64)
            state["open_sums"] = np.stack([sums for sums, _ in self._open.values()])
            state["open_counts"] = np.stack([counts for _, counts in self._open.values()])
        return state

    @classmethod
    def from_state(cls, state: dict[str, np.ndarray]) -> Groups:
        """The inverse of `state`."""
        self = cls(state["sums"].shape[-1], state["sums"].shape[1])
        for name in ("counts", "sums", "products", "units"):
            setattr(self, name, state[name].copy())
        if "open_units" in state:
            rows = zip(state["open_units"], state["open_sums"], state["open_counts"], strict=True)
            self._open = {int(key): (sums.copy(), counts.copy()) for key, sums, counts in rows}
        return self


def effective_groups(sizes: Floats) -> float:
    """Return how many groups of equal size would be worth as much as groups of these sizes: n²/Σn_g².

    >>> effective_groups(np.array([5.0, 5.0, 5.0])), round(effective_groups(np.array([100.0, 1.0])), 2)
    (3.0, 1.02)
    """
    return float(sizes.sum() ** 2 / (sizes**2).sum())


def between_cosine_of(t: Totals) -> Floats:
    """Return the mean cosine over pairs from different items."""
    # ‖Σu‖² is the sum over all ordered pairs. `within` holds the pairs of one item, and among them each point's pair with itself.
    return np.asarray(((t.directions**2).sum(-1) - t.within) / (t.alive**2 - t.pairs))


def _scatter(target: np.ndarray, group: np.ndarray, values: np.ndarray) -> None:
    """Add each value to its group, in place: by rows where they are few, by a product with the membership where they are many."""
    if len(group) <= len(target):
        for i, g in enumerate(group):
            target[g] += values[i]
    else:
        members = (np.arange(len(target))[:, None] == group).astype(np.float64)
        target += np.tensordot(members, values, 1).astype(target.dtype)
