"""The statistics of one site: moments of points and of their directions, groups of items, and a sample."""

from __future__ import annotations

import numpy as np

from isoscope.core.numerics import Floats
from isoscope.statistics.jackknife_groups import Groups
from isoscope.statistics.kernel import Block, Sums, as_block, as_float64, block_sums, namespace
from isoscope.statistics.sample import Sample
from isoscope.statistics.second_moment import SecondMoment

SHORT, LONG = 2.0**-80, 2.0**80
"""Mean squared norms between which float32 products of coordinates neither vanish nor overflow."""


class Moments:
    """n, Σx, Σ‖x‖, Σ‖x‖², Σu, Σu² by dimension, and on request the second moments of x and of u = x/‖x‖.

    They give, exactly and without sampling, the mean cosine over all pairs, drift, and the spectrum with all that depends on it.
    Points of norm zero are counted in `zeros`; they have no direction and take no part in the sums of u.

    >>> m = Moments(2); m.update(np.array([[1.0, 0.0], [0.0, 2.0], [0.0, 1.0]]))
    >>> m.n, m.directions.tolist(), m.norm
    (3, [1.0, 2.0], 4.0)
    """

    def __init__(self, d: int, *, second: bool = True, cosine: bool = False) -> None:
        self.d, self.n, self.zeros, self.norm, self.norm2 = d, 0, 0, 0.0, 0.0
        self.total, self.directions, self.squared = np.zeros(d), np.zeros(d), np.zeros(d)
        self.second = SecondMoment(d) if second else None
        self.cosine = SecondMoment(d) if cosine else None

    def update(self, points: Block) -> None:
        """Add points, shape (n, d)."""
        block = as_block(points)
        sums = block_sums(block[None])
        self.add(sums, block, None if sums.nonfinite == 0 else np.flatnonzero(~np.isfinite(as_float64(block)).all(1)))

    def add(self, sums: Sums, rows: Block | None, drop: np.ndarray | None = None) -> None:
        """Add sums, and the rows (n, d) behind them for the second moments, without those in `drop`."""
        self.n += round(float(sums.n.sum()))
        self.zeros += round(float(sums.zeros.sum()))
        self.norm += float(sums.norm.sum())
        self.norm2 += float(sums.norm2.sum())
        self.total += sums.total.sum(0)
        self.directions += sums.directions.sum(0)
        self.squared += sums.squared.sum(0)
        if rows is None or not len(rows):
            return
        if not SHORT < float(sums.norm2.sum()) / max(float(sums.n.sum()), 1.0) < LONG:
            rows = as_float64(rows)  # products of float32 would overflow, or vanish
        if self.second is not None:
            self.second.update(rows, drop)
        if self.cosine is not None:
            xp = namespace(rows)
            largest = abs(rows).max(-1) if isinstance(rows, np.ndarray) else abs(rows).amax(-1)
            alive = as_float64(largest) > 0
            alive[drop if drop is not None else []] = False
            scaled = rows / xp.where(largest > 0, largest, xp.ones_like(largest))[:, None]  # or squares of very short rows would vanish
            norms = xp.sqrt((scaled * scaled).sum(-1))
            self.cosine.update(scaled / xp.where(norms > 0, norms, xp.ones_like(norms))[:, None], np.flatnonzero(~alive))

    def merge(self, other: Moments) -> Moments:
        """The moments of both streams; neither is changed."""
        merged = Moments(self.d, second=False)
        merged.n, merged.zeros = self.n + other.n, self.zeros + other.zeros
        merged.norm, merged.norm2 = self.norm + other.norm, self.norm2 + other.norm2
        merged.total, merged.directions = self.total + other.total, self.directions + other.directions
        merged.squared = self.squared + other.squared
        if self.second is not None and other.second is not None:
            merged.second = self.second.merge(other.second)
        if self.cosine is not None and other.cosine is not None:
            merged.cosine = self.cosine.merge(other.cosine)
        return merged

    @property
    def alive(self) -> int:
        """Points that have a direction."""
        return self.n - self.zeros

    @property
    def mean(self) -> Floats:
        """x̄, shape (d,)."""
        # The second moments add up x − c in float64. Σx adds tiles in float32, which under a large offset leaves fewer digits.
        return self.second.mean if self.second is not None else self.total / max(self.n, 1)

    def state(self) -> dict[str, np.ndarray]:
        """Everything as arrays, by name."""
        state = {
            "counts": np.array([self.d, self.n, self.zeros], dtype=np.int64),
            "norms": np.array([self.norm, self.norm2]),
            "sums": np.stack([self.total, self.directions, self.squared]),
        }
        for name, part in (("second", self.second), ("cosine", self.cosine)):
            if part is not None:
                state |= {f"{name}.{key}": value for key, value in part.state().items()}
        return state

    @classmethod
    def from_state(cls, state: dict[str, np.ndarray]) -> Moments:
        """The inverse of `state`."""
        d, n, zeros = (int(count) for count in state["counts"])
        self = cls(d, second=False)
        self.n, self.zeros = n, zeros
        self.norm, self.norm2 = (float(norm) for norm in state["norms"])
        self.total, self.directions, self.squared = (row.copy() for row in state["sums"])
        for name in ("second", "cosine"):
            part = {key.removeprefix(f"{name}."): value for key, value in state.items() if key.startswith(f"{name}.")}
            if part:
                setattr(self, name, SecondMoment.from_state(part))
        return self


VERSION = 4
"""Increased when the meaning of a statistic changes; cells of another version are computed again."""


class SiteStatistics:
    """The statistics of one site. A token policy is applied after the pass: `Cloud.of(statistics, policy)` joins its slices."""

    def __init__(self, d: int, names: list[str], *, second: bool = True, cosine: bool = False, sample: int = 4096) -> None:
        self.d, self.names = d, list(names)
        self.moments = [Moments(d, second=second, cosine=cosine) for _ in names]
        self.groups: Groups | None = Groups(d, len(names))
        self.sample: Sample | None = Sample(d, sample) if sample else None

    @property
    def slices_in_use(self) -> list[str]:
        """The slices that hold points."""
        return [name for name, moments in zip(self.names, self.moments, strict=True) if moments.n]

    def merge(self, other: SiteStatistics) -> SiteStatistics:
        """The statistics of both streams; neither is changed."""
        merged = SiteStatistics(self.d, self.names, second=False, sample=0)
        merged.moments = [a.merge(b) for a, b in zip(self.moments, other.moments, strict=True)]
        merged.groups = self.groups.merge(other.groups) if self.groups is not None and other.groups is not None else None
        merged.sample = self.sample.merge(other.sample) if self.sample is not None and other.sample is not None else None
        return merged

    def state(self, *, sample: bool = True) -> dict[str, np.ndarray]:
        """Everything as arrays, by name."""
        state = {f"slices.{name}": np.array([i]) for i, name in enumerate(self.names)}
        for name, moments in zip(self.names, self.moments, strict=True):
            state |= {f"moments.{name}.{key}": value for key, value in moments.state().items()}
        for kind, part in (("groups", self.groups), ("sample", self.sample if sample else None)):
            if part is not None:
                state |= {f"{kind}.{key}": value for key, value in part.state().items()}
        return state

    @classmethod
    def from_state(cls, state: dict[str, np.ndarray]) -> SiteStatistics:
        """The inverse of `state`."""

        def under(prefix: str) -> dict[str, np.ndarray]:
            return {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}

        order = under("slices.")
        # The order of names is part of the state: the groups' products and the sample know a slice only by its number.
        names = sorted(order, key=lambda name: int(order[name][0]))
        self = cls(int(under(f"moments.{names[0]}.")["counts"][0]), names, second=False, sample=0)
        self.moments = [Moments.from_state(under(f"moments.{name}.")) for name in names]
        groups, sample = under("groups."), under("sample.")
        self.groups = Groups.from_state(groups) if groups else None
        self.sample = Sample.from_state(sample) if sample else None
        return self
