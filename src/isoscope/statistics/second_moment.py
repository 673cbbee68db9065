"""Σ(x−c)(x−c)ᵀ around a shift that lies near the data, so that an offset costs no digits."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np

from isoscope.core.numerics import Floats
from isoscope.core.run_in_threads import run_in_threads
from isoscope.statistics.kernel import Block, as_block, as_float64, namespace, one_thread

BLOCK_ROWS = 4096
"""Rows multiplied at a time; float32 products of this many rows lose less than the model's own rounding."""

FEW_ROWS = 256

FAR = 9.0
"""A block whose mean lies further from the shift than three times its own spread gets a shift of its own, and is merged."""


COLUMNS = 1024
"""Columns multiplied at a time: products of a matrix with itself take half the work, and only a part of a second (d, d) matrix is made."""
SMALL_PRODUCT = 1 << 24
"""Products of fewer multiplications are not worth a second thread."""
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
        self._matrix: Floats | None = None  # Σ(x−c)(x−c)ᵀ; only on and right of the diagonal until `_whole`
        self._whole = True
        self.step = 0.0  # the coarsest relative rounding step of any product so far

    @property
    def outer(self) -> Floats | None:
        """Σ(x−c)(x−c)ᵀ, shape (d, d), once there are more than d vectors."""
        if self._matrix is not None and not self._whole:
            for i in range(0, self.d, FEW_ROWS):
                at, beyond = slice(i, i + FEW_ROWS), slice(i + FEW_ROWS, None)
                self._matrix[at, at] = np.triu(self._matrix[at, at]) + np.triu(self._matrix[at, at], 1).T
                self._matrix[beyond, at] = self._matrix[at, beyond].T
            self._whole = True
        return self._matrix

    @outer.setter
    def outer(self, matrix: Floats) -> None:
        self._matrix, self._whole = matrix, True

    def update(self, x: Block, drop: np.ndarray | None = None) -> None:
        """Add the rows of x, shape (m, d), float32 or float64; those numbered in `drop` are left out."""
        gone = 0 if drop is None else len(drop)
        if self._matrix is None and self.n + len(x) - gone <= self.d:
            rows = as_block(x)
            # One array, so that a merge adds all of them at once: the last digits then do not depend on how vectors were batched.
            self.held = [np.concatenate([*self.held, rows if drop is None else np.delete(rows, drop, axis=0)])]
            self.n += len(x) - gone
            return
        if self.held:
            held, self.held, self.n = np.concatenate(self.held), [], 0
            self._add(held, _NONE)
        for start in range(0, len(x), BLOCK_ROWS):
            inside = _NONE if drop is None else drop[(drop >= start) & (drop < start + BLOCK_ROWS)] - start
            self._add(x[start : start + BLOCK_ROWS], inside)

    def _add(self, x: Block, drop: np.ndarray) -> None:
        m = len(x) - len(drop)
        if not m:
            return
        if self.shift is None or self._matrix is None:
            # Rounded so that x − c is exact to the last digit of its own size, in float32 too.
            self.shift = _round_to_float32(_mean(x, drop))
            self._matrix = np.zeros((self.d, self.d))
        if m == 1:
            x, drop = np.delete(as_float64(x), drop, axis=0), _NONE  # one row has no spread by which to tell that it is far: use float64
        rows, total, spread = _about(x, drop, self.shift)
        # Far from the shift, x − c has the offset's digits and not the spread's. Products about the block's own mean keep them, and the
        # difference of the two shifts is added in float64.
        if float(total @ total) / m > FAR / (1 + FAR) * spread and m > 1:
            own = _round_to_float32(self.shift + total / m)
            rows, total, _ = _about(x, drop, own)
            total = self._move_shift(own - self.shift, total, m)
        self.step = max(self.step, self._multiply(rows))
        self.total += total
        self.n += m

    def _multiply(self, rows: Block) -> float:
        """Add Σyyᵀ, in the precision of the rows, and return its relative rounding step.

        By blocks of columns, and only on and right of the diagonal. Of a tensor each of torch's threads takes some of the points.
        """
        assert self._matrix is not None
        y = as_block(rows)
        if isinstance(rows, np.ndarray):
            parts, threads = [y], nullcontext()
        else:
            count = namespace(rows).get_num_threads() if len(y) * self.d**2 > SMALL_PRODUCT else 1
            parts, threads = np.array_split(y, count), one_thread()
        with threads:
            for i in range(0, self.d, COLUMNS):
                for j in range(i, self.d, COLUMNS):
                    for product in _products(parts, slice(i, i + COLUMNS), slice(j, j + COLUMNS)):
                        self._matrix[i : i + COLUMNS, j : j + COLUMNS] += product
        self._whole = False
        return float(np.finfo(y.dtype).eps)

    def _move_shift(self, delta: Floats, total: Floats, n: int) -> Floats:
        """Add δsᵀ + sδᵀ + nδδᵀ, by which products of n rows about a shift δ away differ; return their Σ(x−c) about this one."""
        assert self._matrix is not None
        for i in range(0, self.d, FEW_ROWS):  # a few rows at a time: whole matrices in between would take several times the memory
            at = slice(i, i + FEW_ROWS)
            self._matrix[at] += np.outer(delta[at], total + n * delta) + np.outer(total[at], delta)
        return total + n * delta

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
        assert few.shift is not None
        # Both shifts are float32 numbers, so their difference, and the move from one to the other, lose no digits in float64.
        merged.outer += few.outer
        merged.total += merged._move_shift(few.shift - many.shift, few.total, few.n)
        merged.n += few.n
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
        # The shift is near the mean, so little is subtracted here. Σxxᵀ − n·x̄x̄ᵀ would cancel all digits of a cloud far from the origin.
        centred = self.outer.copy()
        for i in range(0, self.d, FEW_ROWS):
            centred[i : i + FEW_ROWS] -= np.outer(self.total[i : i + FEW_ROWS], self.total / self.n)
        centred /= self.n - 1
        return centred

    @property
    def raw_moment(self) -> Floats:
        """Σxxᵀ/n, shape (d, d)."""
        points = self.points
        if points is not None:
            return np.asarray(points.T @ points / max(self.n, 1))
        assert self.shift is not None
        moved = self.merge(SecondMoment(self.d))  # a copy: the matrix about the shift is still needed
        moved._move_shift(self.shift, self.total, self.n)
        assert moved.outer is not None
        moved.outer /= self.n
        return moved.outer

    @property
    def rounding(self) -> Floats:
        """(d,) the variance along each dimension that rounding of the products may have made; zero in float64.

        Rounding errors are independent, so their contribution to an eigenvalue grows with √d and shrinks with √n. The factor is twice
        the largest seen in clouds of known rank.
        """
        if self.outer is None or self.step <= np.finfo(np.float64).eps:
            return np.zeros(self.d)
        return np.asarray(32 * self.step * (self.d / self.n) ** 0.5 * np.diag(self.outer) / self.n)

    def state(self) -> dict[str, np.ndarray]:
        """Return everything as arrays, by name; only the upper half of the symmetric matrix."""
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
        self._matrix, self._whole = np.zeros((d, d)), False
        at = 0
        for i in range(d):
            self._matrix[i, i:] = state["outer"][at : at + d - i]
            at += d - i
        return self


def _products(parts: list[np.ndarray], at: slice, beside: slice) -> list[np.ndarray]:
    """yᵀy between two blocks of columns, of each part of the points. Of a block with itself BLAS does half of the work."""
    products: list[Any] = [None] * len(parts)

    def multiply(i: int) -> None:
        products[i] = parts[i][:, at].T @ parts[i][:, beside]

    run_in_threads([partial(multiply, i) for i in range(len(parts))])
    return products


def _round_to_float32(x: Floats) -> Floats:
    """x as float32 holds it."""
    return x.astype(np.float32).astype(np.float64)


def _mean(x: Block, drop: np.ndarray) -> Floats:
    """The mean of the rows that are not dropped."""
    keep = np.delete(np.arange(len(x)), drop)
    if isinstance(x, np.ndarray):
        return np.asarray((x[keep] if len(drop) else x).mean(0, dtype=np.float64))
    xp = namespace(x)
    return as_float64((x[xp.as_tensor(keep)] if len(drop) else x).mean(0, dtype=xp.float64))


def _about(x: Block, drop: np.ndarray, shift: Floats) -> tuple[Block, Floats, float]:
    """x − c in the precision of x, zero where a row is dropped, with its sum and its sum of squares."""
    if isinstance(x, np.ndarray):
        y = x - shift.astype(x.dtype)
        y[drop] = 0
        return y, y.sum(0, dtype=np.float64), float(np.vecdot(y, y).sum(dtype=np.float64))
    xp = namespace(x)
    y = _scratch(x)
    xp.sub(x, xp.as_tensor(shift, dtype=x.dtype), out=y)
    if len(drop):
        y.index_fill_(0, xp.as_tensor(drop), 0)
    return y, as_float64(y.new_ones(len(y)) @ y), float(xp.linalg.vecdot(y, y).sum())


_BUFFER: list[Block] = []


def _scratch(x: Block) -> Block:
    """Return a buffer for a block like x, kept from call to call: fresh memory costs more than the subtraction that fills it."""
    if not _BUFFER or _BUFFER[0].shape[1] != x.shape[1] or len(_BUFFER[0]) < len(x) or _BUFFER[0].dtype != x.dtype:
        xp = namespace(x)
        with xp.inference_mode(False):  # a tensor made in inference mode could not be written to outside of it
            _BUFFER[:] = [xp.empty(x.shape, dtype=x.dtype)]
    return _BUFFER[0][: len(x)]
