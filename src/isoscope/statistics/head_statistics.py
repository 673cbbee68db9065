"""The statistics of all heads of one site at once: `SiteStatistics` with an axis for heads and no loop over them."""

from __future__ import annotations

import numpy as np

from isoscope.core.numerics import Floats
from isoscope.statistics.jackknife_groups import PRODUCTS, Groups
from isoscope.statistics.kernel import DENSE, Block, Sums, as_block, block_sums, namespace
from isoscope.statistics.sample import Sample
from isoscope.statistics.second_moment import SecondMoment
from isoscope.statistics.site_statistics import SiteStatistics

HEAD_GROUPS = 16
"""Groups of items per head: a model may have hundreds of heads, and 64 groups of each would take a hundred megabytes."""
HEAD_SAMPLE = 256
"""Points in the sample of a head."""


class Heads:
    """Moments, groups and a sample of h heads of e dimensions; `split` gives the statistics of each head.

    All heads see the same tokens, so one sample of the heads' vectors, joined end to end, is a sample of each head.
    """

    def __init__(self, h: int, e: int, names: list[str], *, groups: int = HEAD_GROUPS, sample: int = HEAD_SAMPLE) -> None:
        self.h, self.e, self.names = h, e, list(names)
        k = len(names)
        self.counts = np.zeros((4, k, groups, h))  # points, those with a direction, Σ‖x‖, Σ‖x‖²
        self.sums = np.zeros((2, k, groups, h, e))  # Σx, Σu
        self.squared = np.zeros((k, h, e))  # Σu²
        self.products = np.zeros((PRODUCTS, groups, k, k, h))
        self.units = np.zeros(groups, dtype=np.int64)
        self.second = [SecondMoments(h, e) for _ in names]
        self.sample = Sample(h * e, sample) if sample else None
        self._open: dict[int, tuple[Floats, Floats]] = {}

    def update(self, x: Block, codes: np.ndarray, group: np.ndarray, *, unit: np.ndarray, last: np.ndarray) -> dict[int, int]:
        """Add points.

        Args:
            x: (b, h, t, e) float32 or float64.
            codes: (b, t) the slice of each position as its number in `names`; −1 where it is padding.
            group: (b,) the group of each sequence.
            unit: (b,) the item of each sequence.
            last: (b,) whether this is the last sequence of its item.

        Returns:
            By slice, how many vectors hold NaN or infinity. If there are any, nothing was added.
        """
        b, k = len(codes), len(self.names)
        by_slice = {int(code): _slice_sums(x, codes == code) for code in np.unique(codes) if code >= 0}
        bad = {code: part.nonfinite for code, part in by_slice.items() if part.nonfinite}
        if bad:
            return bad
        group = group % len(self.units)  # 16 divides 64, so a head's groups are unions of the site's groups
        of_items = np.zeros((b, 2, k, self.h, self.e)), np.zeros((b, 2, k, self.h))  # Σu and points with a direction, Σx and all points
        for code, part in by_slice.items():
            total, directions, squared = (s.reshape(b, self.h, self.e) for s in (part.total, part.directions, part.squared))
            counts = np.stack([part.n, part.n - part.zeros, part.norm, part.norm2]).reshape(4, b, self.h)
            of_items[0][:, 0, code], of_items[0][:, 1, code] = directions, total
            of_items[1][:, 0, code], of_items[1][:, 1, code] = counts[1], counts[0]
            self.squared[code] += squared.sum(0)
            for i, g in enumerate(group):
                self.counts[:, code, g] += counts[:, i]
                self.sums[0, code, g] += total[i]
                self.sums[1, code, g] += directions[i]
            self.second[code].update(x, codes == code, total.sum(0))
        self._add_items(*of_items, group, unit, last)
        return {}

    def _add_items(self, sums: Floats, counts: Floats, group: np.ndarray, unit: np.ndarray, last: np.ndarray) -> None:
        """Add the products of whole items. A sequence that is not its item's last one waits in `_open` for the others."""
        for i, key in enumerate(int(key) for key in unit):
            before = self._open.pop(key, None)
            S, N = (sums[i], counts[i]) if before is None else (sums[i] + before[0], counts[i] + before[1])
            if not last[i]:
                self._open[key] = S.copy(), N.copy()
                continue
            by_head = S.transpose(0, 2, 1, 3)  # (2, h, slices, e)
            self.products[::2, group[i]] += (by_head @ by_head.swapaxes(2, 3)).transpose(0, 2, 3, 1)
            self.products[1::2, group[i]] += N[:, :, None] * N[:, None]
            self.units[group[i]] += 1

    def draw(self, x: Block, hashes: np.ndarray, item: np.ndarray, index: np.ndarray, codes: np.ndarray) -> None:
        """Offer the points (b, h, t, e) to the sample, with (b, t) hash, index and slice, and (b,) item."""
        if self.sample is None:
            return
        b, t = codes.shape
        rows = x.swapaxes(1, 2).reshape(b * t, self.h * self.e)
        self.sample.update(rows, hashes.ravel(), np.repeat(item, t), index.ravel(), codes.ravel())

    @property
    def slices_in_use(self) -> list[str]:
        """The slices that hold points."""
        in_use = self.counts[0].sum((1, 2)) > 0
        return [name for name, used in zip(self.names, in_use, strict=True) if used]

    def merge(self, other: Heads) -> Heads:
        """Return the statistics of both streams; neither is changed."""
        return Heads.from_heads([a.merge(b) for a, b in zip(self.split(), other.split(), strict=True)])

    def state(self, *, sample: bool = True) -> dict[str, np.ndarray]:
        """Return everything as arrays, by name, with the heads as their first axis."""
        heads = [head.state(sample=sample) for head in self.split()]
        return {name: np.stack([head[name] for head in heads]) for name in heads[0]}

    @classmethod
    def from_state(cls, state: dict[str, np.ndarray]) -> Heads:
        """Return the inverse of `state`."""
        heads = len(next(iter(state.values())))
        return cls.from_heads([SiteStatistics.from_state({name: array[j] for name, array in state.items()}) for j in range(heads)])

    def split(self) -> list[SiteStatistics]:
        """Return the statistics of each head."""
        return [self._head(j) for j in range(self.h)]

    def _head(self, j: int) -> SiteStatistics:
        statistics = SiteStatistics(self.e, self.names, second=False, sample=0)
        for s, moments in enumerate(statistics.moments):
            n, alive, norm, norm2 = self.counts[:, s, :, j].sum(1)
            moments.n, moments.zeros, moments.norm, moments.norm2 = round(n), round(n - alive), float(norm), float(norm2)
            moments.total, moments.directions = self.sums[:, s, :, j].sum(1)
            moments.squared = self.squared[s, j].copy()
            moments.second = self.second[s].head(j)
        groups = Groups(self.e, len(self.names))
        groups.count = len(self.units)
        groups.counts, groups.sums = self.counts[..., j].copy(), self.sums[..., j, :].copy()
        groups.products, groups.units = self.products[..., j].copy(), self.units.copy()
        groups._open = {key: (S[:, :, j].copy(), N[:, :, j].copy()) for key, (S, N) in self._open.items()}
        statistics.groups = groups
        if self.sample is not None:
            statistics.sample = Sample(self.e, self.sample.k)
            points = self.sample.points[:, j * self.e : (j + 1) * self.e]
            statistics.sample.update(points, self.sample.hashes, self.sample.unit, self.sample.index, self.sample.slice)
        return statistics

    @classmethod
    def from_heads(cls, parts: list[SiteStatistics]) -> Heads:
        """The inverse of `split`."""
        first = parts[0]
        groups = [part.groups for part in parts if part.groups is not None]
        samples = [part.sample for part in parts if part.sample is not None]
        self = cls(len(parts), first.d, first.names, groups=len(groups[0].units), sample=samples[0].k if samples else 0)
        self.counts = np.stack([part.counts for part in groups], axis=-1)
        self.sums = np.stack([part.sums for part in groups], axis=-2)
        self.products = np.stack([part.products for part in groups], axis=-1)
        self.units = groups[0].units.copy()
        self.squared = np.stack([[moments.squared for moments in part.moments] for part in parts], axis=1)
        self.second = [
            SecondMoments.from_heads([second for part in parts if (second := part.moments[s].second) is not None])
            for s in range(len(first.names))
        ]
        for key in groups[0]._open:
            S, N = zip(*(part._open[key] for part in groups), strict=True)
            self._open[key] = np.stack(S, axis=2), np.stack(N, axis=2)
        if samples and self.sample is not None:
            points = np.concatenate([part.points for part in samples], axis=1)
            self.sample.update(points, samples[0].hashes, samples[0].unit, samples[0].index, samples[0].slice)
        return self


def _slice_sums(x: Block, mask: np.ndarray) -> Sums:
    """Return the sums of the points (b, h, t, e) where the mask (b, t) is true, one segment per sequence and head."""
    b, h, t, _ = x.shape
    if mask.sum() > DENSE * b * t:
        return Sums.chain([block_sums(as_block(x[i]), np.broadcast_to(mask[i], (h, t))) for i in range(b)])
    return Sums.chain([block_sums(as_block(_take_positions(x[i], np.flatnonzero(mask[i])))) for i in range(b)])


def _take_positions(x: Block, positions: np.ndarray) -> Block:
    """Return these positions of (h, m, e)."""
    return x[:, positions] if isinstance(x, np.ndarray) else x[:, namespace(x).as_tensor(positions)]


class SecondMoments:
    """The second moments of h heads: `SecondMoment` with an axis for heads."""

    def __init__(self, h: int, e: int) -> None:
        self.h, self.e, self.n, self.step = h, e, 0, 0.0
        self.held: list[np.ndarray] = []  # (h, m, e), as long as there are no more than e points
        self.shift: Floats | None = None
        self.total, self.outer = np.zeros((h, e)), np.zeros((h, e, e))

    def update(self, x: Block, mask: np.ndarray, total: Floats) -> None:
        """Add the points (b, h, t, e) where the mask (b, t) is true; they add up to `total` (h, e)."""
        m = int(mask.sum())
        if m <= DENSE * mask.size:
            x, mask = _gather_points(x, mask), np.ones((1, m), dtype=bool)
        if self.shift is None and self.n + m <= self.e:
            rows = x[0] if mask.all() else _gather_points(x, mask)[0]
            self.held.append(np.array(as_block(rows)))
            self.n += m
            return
        held, self.held = self.held, []
        if held:
            points = np.concatenate(held, axis=1)
            self.n = 0
            self._add(points[None], np.ones((1, points.shape[1]), dtype=bool), points.sum(1, dtype=np.float64))
        self._add(x, mask, total)

    def _add(self, x: Block, mask: np.ndarray, total: Floats) -> None:
        """Add (b, h, t, e): products about their own mean, then moved to the common shift."""
        m = int(mask.sum())
        mean = (total / m).astype(np.float32).astype(np.float64)  # rounded, so that x − mean is exact in float32
        self.shift = mean if self.shift is None else self.shift
        outer = _products(x, mask, mean)
        sums, delta = total - m * mean, mean - self.shift
        self.outer += outer
        if delta.any():
            cross = delta[:, :, None] * (sums + m / 2 * delta)[:, None, :]
            self.outer += cross + cross.swapaxes(1, 2)
        self.total += sums + m * delta
        self.n += m
        self.step = max(self.step, float(np.finfo(outer.dtype).eps))

    def head(self, j: int) -> SecondMoment:
        """The second moments of one head."""
        moment = SecondMoment(self.e)
        moment.n, moment.step = self.n, self.step
        if self.shift is None:
            moment.held = [part[j].copy() for part in self.held]
        else:
            moment.shift, moment.total, moment.outer = self.shift[j].copy(), self.total[j].copy(), self.outer[j].copy()
        return moment

    @classmethod
    def from_heads(cls, parts: list[SecondMoment]) -> SecondMoments:
        """The inverse of `head`."""
        self = cls(len(parts), parts[0].d)
        self.n, self.step = parts[0].n, parts[0].step
        if parts[0].outer is None:
            self.held = [np.stack([np.concatenate(part.held) for part in parts])] if self.n else []
            return self
        self.shift = np.stack([part.shift for part in parts if part.shift is not None])
        self.total = np.stack([part.total for part in parts])
        self.outer = np.stack([part.outer for part in parts if part.outer is not None])
        return self


def _gather_points(x: Block, mask: np.ndarray) -> Block:
    """(1, h, m, e), the points (b, h, t, e) where the mask (b, t) is true."""
    rows = x.swapaxes(1, 2)
    b, t = np.nonzero(mask)
    if not isinstance(x, np.ndarray):
        b, t = (namespace(x).as_tensor(where) for where in (b, t))
    return rows[b, t].swapaxes(0, 1)[None]


def _products(x: Block, mask: np.ndarray, mean: Floats) -> np.ndarray:
    """Return Σ(x−c)(x−c)ᵀ of each head over the points where the mask is true, in their precision."""
    if isinstance(x, np.ndarray):
        y = np.where(mask[:, None, :, None], x - mean[:, None].astype(x.dtype), 0)
        return np.asarray((y.swapaxes(2, 3) @ y).sum(0))
    xp = namespace(x)
    centre = xp.as_tensor(mean, dtype=x.dtype)[:, None]
    # One sequence at a time, in one buffer: a centred copy of the whole batch would double the memory of the states.
    y, outer = xp.empty_like(x[0], memory_format=xp.contiguous_format), x.new_zeros((len(mean), x.shape[3], x.shape[3]))
    for i, row in enumerate(x):
        xp.sub(row, centre, out=y)
        if not mask[i].all():
            y.index_fill_(1, xp.as_tensor(np.flatnonzero(~mask[i])), 0)
        xp.baddbmm(outer, y.swapaxes(1, 2), y, out=outer)
    return np.asarray(outer.numpy())
