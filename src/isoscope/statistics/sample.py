"""A uniform sample of points that does not depend on the order in which they came."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from isoscope.statistics.kernel import Block, as_block

Hashes = NDArray[np.uint64]
MOVED = 256
"""Points that are moved at a time: a copy of all of them would double the memory of the sample."""


def mix(x: Hashes) -> Hashes:
    """The finaliser of splitmix64: spreads every bit of x over all bits of the result."""
    with np.errstate(over="ignore"):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def item_hash(item: str) -> int:
    """64 bits of an item's id, the same on every machine.

    >>> item_hash("a") == item_hash("a"), item_hash("a") == item_hash("b")
    (True, False)
    """
    return int.from_bytes(hashlib.blake2b(item.encode(), digest_size=8).digest(), "little")


def point_hashes(seed: int, unit: Hashes, index: NDArray[np.int64]) -> Hashes:
    """The hash of (seed, item, index), by which points are drawn."""
    with np.errstate(over="ignore"):
        # mix(0) is 0: without the constant, seed 0 would leave the item's hash as it is. The odd factor sets neighbouring indices apart.
        seeded = mix(unit ^ mix(np.full(1, seed, dtype=np.int64).astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)))
        return mix(seeded + index.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))


def _widen(points: np.ndarray, held: int) -> np.ndarray:
    """Return a float64 buffer of the same size, with the first points copied."""
    wide = np.empty(points.shape, np.float64)
    wide[:held] = points[:held]
    return wide


class Sample:
    """The k points whose hash is smallest. Merging two samples gives the sample of both streams, exactly.

    Every site and every checkpoint that sees the same tokens keeps the same ones. Points carry the hash of their item, their
    index in it, and the slice they belong to. Points of float64 stay float64, since an offset may leave them few digits otherwise.
    """

    def __init__(self, d: int, k: int = 4096) -> None:
        self.d, self.k = d, k
        room = max(1, 2 * k)  # taken once: growing it batch by batch would fragment the heap
        self._columns: tuple[np.ndarray, ...] = (
            np.empty(room, np.uint64),
            np.empty((room, d), np.float32),
            np.empty(room, np.uint64),
            np.empty(room, np.int64),
            np.empty(room, np.int16),
        )
        self._held = 0
        self._sorted = True
        self._limit = np.uint64(2**64 - 1)

    def update(self, points: Block, hashes: Hashes, unit: Hashes, index: np.ndarray, slice: np.ndarray) -> None:
        """Offer points (n, d) with their hash, item, index and slice (a negative slice is not a point)."""
        # The limit is the k-th smallest hash so far and only falls, so in a long stream one comparison rejects almost every point.
        keep = np.flatnonzero((hashes <= self._limit) & (slice >= 0))
        while len(keep):
            now, keep = np.split(keep, [len(self._columns[0]) - self._held])
            self._push(hashes[now], as_block(points)[now], unit[now], index[now], slice[now])
            keep = keep[hashes[keep] <= self._limit]

    def _push(self, *part: np.ndarray) -> None:
        """Add points that fit into the room that is left."""
        end = self._held + len(part[0])
        hashes, points, *others = self._columns
        if part[1].dtype == np.float64 and points.dtype == np.float32:
            self._columns = (hashes, _widen(points, self._held), *others)
        for column, values in zip(self._columns, part, strict=True):
            column[self._held : end] = values
        self._held, self._sorted = end, False
        if end == len(self._columns[0]):
            self._drop_largest()

    def _order(self) -> np.ndarray:
        hashes, _, unit, index, _ = self._columns
        # Equal hashes are ordered by item and index, so that a collision does not make the sample depend on the order of arrival.
        return np.lexsort((index[: self._held], unit[: self._held], hashes[: self._held]))[: self.k]

    def _drop_largest(self) -> None:
        """Keep the k smallest, moving no more points than must move."""
        if self._held <= self.k:
            return
        order = self._order()
        stays = np.zeros(self._held, dtype=bool)
        stays[order] = True
        free, moved = np.flatnonzero(~stays[: self.k]), self.k + np.flatnonzero(stays[self.k :])
        if self.k:
            self._limit = self._columns[0][order[-1]]
        for at in range(0, len(free), MOVED):
            for column in self._columns:
                column[free[at : at + MOVED]] = column[moved[at : at + MOVED]]
        self._held = len(order)

    def _column(self, i: int) -> np.ndarray:
        if not self._sorted:
            self._drop_largest()
            order = self._order()
            for column in self._columns:
                column[: self._held] = column[order]
            self._sorted = True
        return self._columns[i][: self._held]

    @property
    def hashes(self) -> Hashes:
        """(m,), in increasing order."""
        return self._column(0)

    @property
    def points(self) -> np.ndarray:
        """(m, d) float32, or float64 if any point was."""
        return self._column(1)

    @property
    def unit(self) -> Hashes:
        """(m,) the hash of each point's item."""
        return self._column(2)

    @property
    def index(self) -> np.ndarray:
        """(m,) each point's place in its item."""
        return self._column(3)

    @property
    def slice(self) -> np.ndarray:
        """(m,) each point's slice, as its number in the site's list."""
        return self._column(4)

    def __len__(self) -> int:
        return len(self.hashes)

    def merge(self, other: Sample) -> Sample:
        """The sample of both streams; neither is changed."""
        # The k smallest hashes of both streams are among the k smallest of each; beyond the smaller k one side has lost points.
        merged = Sample(self.d, min(self.k, other.k))
        for part in (self, other):
            merged.update(part.points, part.hashes, part.unit, part.index, part.slice)
        return merged

    def join(self, chosen: list[int]) -> Sample:
        """The part of the sample that lies in the chosen slices: still uniform, over them."""
        keep = np.isin(self.slice, chosen)
        joined = Sample(self.d, self.k)
        joined.update(self.points[keep], self.hashes[keep], self.unit[keep], self.index[keep], self.slice[keep])
        return joined

    def state(self) -> dict[str, np.ndarray]:
        """Everything as arrays, by name."""
        named = {"hashes": self.hashes, "points": self.points, "unit": self.unit, "index": self.index, "slice": self.slice}
        return named | {"k": np.array([self.d, self.k], dtype=np.int64)}

    @classmethod
    def from_state(cls, state: dict[str, np.ndarray]) -> Sample:
        """The inverse of `state`."""
        self = cls(*(int(value) for value in state["k"]))
        self.update(state["points"], state["hashes"], state["unit"], state["index"], state["slice"])
        return self
