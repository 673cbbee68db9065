"""Σ(x−c)(x−c)ᵀ around a shift that lies near the data, so that an offset costs no digits."""

from __future__ import annotations

import numpy as np

from isoscope.statistics.kernel import Block, Floats, namespace, to_host

BLOCK_ROWS = 4096
"""Rows multiplied at a time; float32 products of so many rows lose less than the model's own rounding."""

FEW_ROWS = 256

FAR = 9.0
"""A block whose mean lies further from the shift than three times its own spread gets a shift of its own, and is merged."""


COLUMN_BLOCKS = 6
"""torch has no product of a matrix with itself; in so many blocks of columns it does little more than half of the work."""
_NONE = np.zeros(0, dtype=np.int64)


class SecondMoment:
    """The second moments of a stream of vectors. As long as there are no more than d of them, the vectors themselves are kept.

    >>> a = SecondMoment(2); a.update(np.array([[1.0, 0.0], [3.0, 0.0], [2.0, 3.0]]))
    >>> a.covariance.tolist()
    [[1.0, 0.0], [0.0, 3.0]]
    """

    def __init__(self, d: int) -> None:
        self.d, self.n = d, 0
        self.held: list[np.ndarray] = []
        self.shift: Floats | None = None
        self.total: Floats = np.zeros(d)  # Σ(x−c)
        self.outer: Floats | None = None  # Σ(x−c)(x−c)ᵀ
        self._room: Floats | None = None
        self.step = 0.0  # the relative rounding step of the products, the coarsest there was

    def reserve(self) -> None:
        """Take the memory of the matrix now, so that a long run that begins does not end for lack of it."""
        if self.outer is None:
            self._room = np.empty((self.d, self.d))
            self._room.fill(0.0)  # written, and so really there

    def update(self, x: Block, drop: np.ndarray | None = None) -> None:
        """Add the rows of x, shape (m, d), float32 or float64; those numbered in `drop` are left out."""
        gone = 0 if drop is None else len(drop)
        if self.outer is None and self.n + len(x) - gone <= self.d:
            rows = np.array(x if isinstance(x, np.ndarray) else x.cpu().numpy())
            self.held.append(rows if drop is None else np.delete(rows, drop, axis=0))
            self.n += len(x) - gone
            return
        held, self.held = self.held, []
        if held:
            self.n -= sum(map(len, held))  # they are counted again as they are added
            self._add(np.concatenate(held), _NONE)
        for start in range(0, len(x), BLOCK_ROWS):
            inside = _NONE if drop is None else drop[(drop >= start) & (drop < start + BLOCK_ROWS)] - start
            self._add(x[start : start + BLOCK_ROWS], inside)

    def _add(self, x: Block, drop: np.ndarray) -> None:
        m = len(x) - len(drop)
        if not m:
            return
        if self.shift is None or self.outer is None:
            # Rounded so that x − c is exact to the last digit of its own size, in float32 too.
            self.shift = np.delete(to_host(x), drop, axis=0).mean(0).astype(np.float32).astype(np.float64)
            self.outer, self._room = np.zeros((self.d, self.d)) if self._room is None else self._room, None
        if m == 1:
            x, drop = np.delete(to_host(x), drop, axis=0), _NONE  # one row has no spread by which to tell that it is far: use float64
        total, outer = _products(x, drop, self.shift)
        if float(total @ total) / m > FAR / (1 + FAR) * float(np.trace(outer)) and m > 1:
            block = SecondMoment(self.d)
            block.shift = (self.shift + total / m).astype(np.float32).astype(np.float64)
            block.total, block.outer = _products(x, drop, block.shift)
            self.step = max(self.step, float(np.finfo(block.outer.dtype).eps))
            block.n = m
            total, outer = block._about(self.shift)
        self.total += total
        self.outer += outer
        self.n += m
        self.step = max(self.step, float(np.finfo(outer.dtype).eps))

    def _about(self, shift: Floats) -> tuple[Floats, Floats]:
        """Σ(x−c) and its products for another shift: S + δsᵀ + sδᵀ + nδδᵀ with δ the difference of the two."""
        assert self.shift is not None
        assert self.outer is not None
        delta = self.shift - shift
        moved = self.outer.astype(np.float64)
        for i in range(0, self.d, FEW_ROWS):  # a few rows at a time: whole matrices in between would take several times the memory
            at = slice(i, i + FEW_ROWS)
            moved[at] += np.outer(delta[at], self.total) + np.outer(self.total[at], delta) + self.n * np.outer(delta[at], delta)
        return self.total + self.n * delta, moved

    def merge(self, other: SecondMoment) -> SecondMoment:
        """The second moments of both streams; neither is changed."""
        merged = SecondMoment(self.d)
        few, many = sorted((self, other), key=lambda part: part.outer is not None)
        if many.outer is None or many.shift is None:
            for rows in [*self.held, *other.held]:
                merged.update(rows)
            return merged
        merged.n, merged.shift, merged.total, merged.outer = many.n, many.shift, many.total.copy(), many.outer.copy()
        merged.step = max(self.step, other.step)
        if few.outer is None:
            for rows in few.held:
                merged.update(rows)
            return merged
        total, outer = few._about(many.shift)
        merged.n += few.n
        merged.total += total
        merged.outer += outer
        return merged

    @property
    def points(self) -> Floats | None:
        """(n, d), the vectors themselves, while there are no more than d of them."""
        return None if self.outer is not None else np.concatenate([np.zeros((0, self.d)), *self.held]).astype(np.float64)

    @property
    def mean(self) -> Floats:
        """x̄, shape (d,)."""
        points = self.points
        if points is not None:
            return points.mean(0) if self.n else np.full(self.d, np.nan)
        assert self.shift is not None
        return self.shift + self.total / self.n

    @property
    def covariance(self) -> Floats:
        """Σ(x−x̄)(x−x̄)ᵀ/(n−1), shape (d, d)."""
        points = self.points
        if points is not None:
            y = points - points.mean(0)
            return np.asarray(y.T @ y / max(self.n - 1, 1))
        assert self.outer is not None
        centred = self.outer.copy()
        for i in range(0, self.d, FEW_ROWS):
            centred[i : i + FEW_ROWS] -= np.outer(self.total[i : i + FEW_ROWS], self.total / self.n)
        centred /= self.n - 1
        return centred

    @property
    def uncentred(self) -> Floats:
        """Σxxᵀ/n, shape (d, d)."""
        points = self.points
        if points is not None:
            return np.asarray(points.T @ points / max(self.n, 1))
        moved = self._about(np.zeros(self.d))[1]
        moved /= self.n
        return moved

    @property
    def rounding(self) -> Floats:
        """(d,) the variance along each dimension that rounding of the products may have made; nothing in float64.

        Roundings are independent, so that what they add to an eigenvalue grows with √d and shrinks with √n; the factor is twice
        the largest seen in clouds of known rank.
        """
        if self.outer is None or self.step <= np.finfo(np.float64).eps:
            return np.zeros(self.d)
        return np.asarray(32 * self.step * (self.d / self.n) ** 0.5 * np.diag(self.outer) / self.n)

    def state(self) -> dict[str, np.ndarray]:
        """What a file keeps; of the symmetric matrix only the upper half."""
        count = {"n": np.array([self.n, self.d], dtype=np.int64)}
        if self.outer is None or self.shift is None:
            kind = np.float32 if all(rows.dtype == np.float32 for rows in self.held) else np.float64
            return count | {"points": np.concatenate([np.zeros((0, self.d), kind), *self.held]).astype(kind)}
        upper = np.concatenate([self.outer[i, i:] for i in range(self.d)])
        return count | {"shift": self.shift, "total": self.total, "outer": upper, "step": np.array([self.step])}

    @classmethod
    def from_state(cls, state: dict[str, np.ndarray]) -> SecondMoment:
        """The inverse of `state`."""
        n, d = (int(value) for value in state["n"])
        self = cls(d)
        self.n = n
        if "points" in state:
            self.held = [state["points"]] if n else []
            return self
        self.shift, self.total, self.step = state["shift"].copy(), state["total"].copy(), float(state["step"][0])
        self.outer = np.zeros((d, d))
        at = 0
        for i in range(d):
            self.outer[i, i:] = self.outer[i:, i] = state["outer"][at : at + d - i]
            at += d - i
        return self


def _products(x: Block, drop: np.ndarray, shift: Floats) -> tuple[Floats, np.ndarray]:
    """Σ(x−c) and Σ(x−c)(x−c)ᵀ over the rows that are not dropped, in the precision of x."""
    if isinstance(x, np.ndarray):
        y = x - shift.astype(x.dtype)
        y[drop] = 0
        return y.sum(0, dtype=np.float64), y.T @ y  # numpy sees that both are one matrix and does half the work
    xp = namespace(x)
    y = _scratch(x)
    xp.sub(x, xp.as_tensor(shift, dtype=x.dtype, device=x.device), out=y)
    if len(drop):
        y.index_fill_(0, xp.as_tensor(drop, device=x.device), 0)
    total = y.new_ones(len(y)) @ y
    d = y.shape[1]
    outer = y.new_empty((d, d))
    width = -(-d // COLUMN_BLOCKS)
    for i in range(0, d, width):
        # Only what lies on and right of the diagonal is multiplied; the rest is its mirror.
        part = y[:, i : i + width].T @ y[:, i:]
        outer[i : i + width, i:] = part
        outer[i + width :, i : i + width] = part[:, width:].T
    return to_host(total), outer.cpu().numpy()


_KEPT: list[Block] = []


def _scratch(x: Block) -> Block:
    """Room for a block like x, kept from call to call: fresh memory costs more than the subtraction that fills it."""
    if not _KEPT or _KEPT[0].shape[1] != x.shape[1] or len(_KEPT[0]) < len(x) or _KEPT[0].dtype != x.dtype or _KEPT[0].device != x.device:
        _KEPT[:] = [x.new_empty(x.shape)]
    return _KEPT[0][: len(x)]
