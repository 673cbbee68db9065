"""The kernel on the host: a block of points becomes sums.

A torch tensor on the CPU is seen as a numpy array without a copy, so that this file needs no torch. States on an accelerator are reduced
there (`models/tapping/device_points.py`).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from isoscope.core.numerics import Floats, load_compiled

Block = Any
"""A numpy array or a torch tensor of floats."""

TILE_ROWS = 128
"""Rows reduced at a time by one thread: a tile and its square stay in the second-level cache, which halves the time."""
LONG = 16
"""Segments of fewer points are many, and are reduced together rather than one after the other."""
TINY = 1e-30
"""A squared norm below this may have lost digits to underflow; such a block is reduced again with every point scaled."""
DENSE = 0.3
"""A slice of more than this part of a batch is reduced under a mask; a smaller one is gathered first, as few are cheap to copy."""


def namespace(x: Block) -> Any:
    """The module whose functions take `x`: numpy or torch, the latter only if the caller has imported it.

    >>> namespace(np.zeros(1)).__name__
    'numpy'
    """
    return sys.modules[type(x).__module__.partition(".")[0]]


def as_block(x: Block) -> Block:
    """`x` as a numpy array of float32 or float64, which shares the memory of an array or a tensor of these types on the CPU."""
    if not isinstance(x, np.ndarray):
        x = x.detach().cpu()
        x = (x if x.dtype in (namespace(x).float32, namespace(x).float64) else x.float()).numpy()
    return x if x.dtype in (np.float32, np.float64) else x.astype(np.float32)


def as_float64(x: Block) -> Floats:
    """`x` as a float64 numpy array."""
    return np.asarray(x if isinstance(x, np.ndarray) else as_block(x), dtype=np.float64)


@dataclass
class Sums:
    """The sums of a block of g segments of t points in d dimensions; one entry per segment."""

    n: Floats  # (g,) points counted
    zeros: Floats  # (g,) points of norm zero among them; they have no direction
    total: Floats  # (g, d) Σx
    directions: Floats  # (g, d) Σu
    squared: Floats  # (g, d) Σu² by dimension
    norm: Floats  # (g,) Σ‖x‖
    norm2: Floats  # (g,) Σ‖x‖²
    nonfinite: int  # points with NaN or infinity; they are in none of the sums

    @classmethod
    def nothing(cls, g: int, d: int) -> Sums:
        """The sums of no points."""
        return cls(np.zeros(g), np.zeros(g), np.zeros((g, d)), np.zeros((g, d)), np.zeros((g, d)), np.zeros(g), np.zeros(g), 0)

    @classmethod
    def chain(cls, parts: list[Sums]) -> Sums:
        """The segments of all parts, one after the other."""

        def column(name: str) -> Floats:
            return np.concatenate([getattr(part, name) for part in parts])

        names = ("n", "zeros", "total", "directions", "squared", "norm", "norm2")
        return cls(**{name: column(name) for name in names}, nonfinite=sum(part.nonfinite for part in parts))


def block_sums(x: np.ndarray, mask: np.ndarray | None = None, *, directions_only: bool = False) -> Sums:
    """The sums of a block.

    Args:
        x: (g, t, d) points in g segments, as `as_block` gives them.
        mask: (g, t), true where a point counts; all of them if None. What is masked reaches no sum, not even as NaN.
        directions_only: leave out Σx and Σu², which the mean cosine does not need.
    """
    g, t = x.shape[:2]
    weight = np.ones((g, t), x.dtype)
    if mask is not None:
        weight *= mask
    # Zero vectors, NaN and lengths that overflow or underflow show in the squared norms. Almost every block has none of them.
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        norm2, directions, total, squared = _tiles(x, weight, directions_only)
        usable = np.isfinite(norm2) & (norm2 > TINY)
        if not usable.all():
            counted = weight > 0
            if (counted & ~usable).any():
                return _scaled_sums(as_float64(x), as_float64(weight), directions_only)
            x = np.where(counted[..., None], x, np.zeros_like(x))  # only masked points are odd, and nothing of them may reach a sum
            x[..., 0] = np.where(counted, x[..., 0], np.ones_like(norm2))
            norm2, directions, total, squared = _tiles(x, weight, directions_only)
    lengths, points = as_float64(norm2 * weight), as_float64(weight).sum(1)
    return Sums(points, np.zeros(g), total, directions, squared, np.sqrt(lengths).sum(1), lengths.sum(1), 0)


def _scaled_sums(x: Floats, weight: Floats, directions_only: bool) -> Sums:
    """Return the sums of a block in which some point is zero, not finite, very long or very short.

    Each point is divided by a power of two near its largest coordinate, which loses no digit, so that its square neither overflows nor
    vanishes.
    """
    largest = np.abs(x).max(-1, initial=0.0)
    finite = np.isfinite(largest)
    usable = finite & (largest > 0)
    exponent = np.where(usable, np.frexp(np.where(usable, largest, 1.0))[1], 0)
    counted, weight = weight > 0, weight * usable
    x = np.where(usable[..., None], x, 0.0)
    # Σu does not depend on a point's scale, so it is taken from scaled points. Σx needs one unit for all, and lengths are scaled back.
    scaled = np.ldexp(x, -exponent[..., None])
    scaled[..., 0] = np.where(usable, scaled[..., 0], 1.0)  # a length that can be divided by, with no weight
    norm2, directions, _, squared = _tiles(scaled, weight, directions_only)
    total = np.zeros_like(directions) if directions_only else (weight[:, None] @ x)[:, 0]
    norm = np.ldexp(np.sqrt(norm2), exponent) * weight
    bad, zeros = int((~finite & counted).sum()), (finite & ~usable & counted).sum(1).astype(np.float64)
    return Sums((finite & counted).sum(1).astype(np.float64), zeros, total, directions, squared, norm.sum(1), (norm**2).sum(1), bad)


@lru_cache(maxsize=1)
def _libraries() -> Any:
    import scipy.linalg  # noqa: F401  it brings a BLAS of its own, which must be there to be found
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


def one_thread() -> Any:
    """Limit BLAS to one thread: small products are slower on several, which wait for each other if another process holds a core."""
    return _libraries().limit(limits=1)


def _tiles(x: np.ndarray, weight: np.ndarray, directions_only: bool) -> tuple[np.ndarray, Floats, Floats, Floats]:
    """Return ‖x‖² by point, and Σu, Σx and Σu² by segment: tile by tile, each tile read from memory once."""
    can_fuse = x.dtype == np.float32 and x.shape[1] >= LONG
    one_pass = load_compiled("isoscope.statistics.kernel_fused") if can_fuse else None
    if one_pass is not None:
        # One pass needs 1.8 ms of CPU for 2048 × 768 points where tiles need 3.2, and 0.8 for the heads of 512 tokens where they need 3.0.
        # A whole measurement hardly notices, but this keeps the hooks below 0.5 % of a forward pass (docs/performance.md).
        norm2, sums = one_pass.add_sums(x, weight, TINY)
        sums[1:] *= not directions_only
        return norm2, sums[0], sums[1], sums[2]
    with one_thread():
        return _tiles_with_numpy(x, weight, directions_only)


def _tiles_with_numpy(x: np.ndarray, weight: np.ndarray, directions_only: bool) -> tuple[np.ndarray, Floats, Floats, Floats]:
    """The same in three passes over each tile."""
    g, t, d = x.shape
    # Long segments are cut into tiles; several short ones share a tile. Each tile's sums have a place of their own and are added in
    # float64 at the end, so that float32 never adds up more than TILE_ROWS points.
    across, along = max(1, TILE_ROWS // max(t, 1)), max(min(TILE_ROWS, t), 1)
    steps = -(-t // along)
    ones, scratch = np.ones(d, x.dtype), np.empty((min(across, g), along, d), x.dtype)
    norm2, (u, total, squared) = np.empty((g, t), x.dtype), np.zeros((3, g, steps, d), x.dtype)
    for i in range(0, g, across):
        at: Any = slice(i, i + across) if across > 1 else i  # one segment is a plain matrix, which BLAS takes faster
        for step, j in enumerate(range(0, t, along)):
            tile, w = x[at, j : j + along], weight[at, j : j + along]
            lengths = norm2[at, j : j + along]
            if directions_only:
                np.vecdot(tile, tile, out=lengths)
            else:
                place = scratch[: tile.shape[0], : tile.shape[1]] if across > 1 else scratch[0, : tile.shape[0]]
                square = np.multiply(tile, tile, out=place)
                np.matmul(square, ones, out=lengths)
            inverse = w / np.sqrt(lengths)
            _weighted_sum(inverse, tile, u[at, step])
            if not directions_only:
                _weighted_sum(w, tile, total[at, step])
                _weighted_sum(inverse * inverse, square, squared[at, step])
    return norm2, u.sum(1, dtype=np.float64), total.sum(1, dtype=np.float64), squared.sum(1, dtype=np.float64)


def _weighted_sum(w: np.ndarray, tile: np.ndarray, out: np.ndarray) -> None:
    """Σ w·x over the points of each segment; a product of a vector and a matrix is faster than one of two matrices."""
    if w.ndim == 1:
        np.matmul(w, tile, out=out)
    else:
        out[:] = (w[:, None, :] @ tile)[:, 0]
