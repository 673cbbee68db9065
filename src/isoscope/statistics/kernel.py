"""The one kernel: a block of points becomes sums, where the block lives.

It is written in the operations that numpy arrays and torch tensors share, so that this file needs no torch. A tensor on the
CPU is seen as a numpy array without a copy; one on an accelerator is reduced there and only the sums come back.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Block = Any
"""A numpy array or a torch tensor of floats."""

TILE_ROWS = 64
"""Rows reduced at a time on the host: a tile and its square stay in the second-level cache, which halves the time."""


def namespace(x: Block) -> Any:
    """The module whose functions take `x`: numpy or torch, the latter only if the caller has imported it.

    >>> namespace(np.zeros(1)).__name__
    'numpy'
    """
    return sys.modules[type(x).__module__.partition(".")[0]]


def as_block(x: Block) -> Block:
    """`x` in a form that the kernel takes: float32 or float64; on the CPU a numpy array that shares the memory."""
    if isinstance(x, np.ndarray):
        return x if x.dtype in (np.float32, np.float64) else x.astype(np.float32)
    x = x.detach()
    if x.dtype not in (namespace(x).float32, namespace(x).float64):
        x = x.float()
    return x.numpy() if x.device.type == "cpu" else x


def to_host(x: Block) -> Floats:
    """`x` as a float64 numpy array."""
    return np.asarray(x if isinstance(x, np.ndarray) else x.cpu().numpy(), dtype=np.float64)


@dataclass
class Sums:
    """What a block of g segments of t points in d dimensions adds up to; one entry a segment except for `squared`."""

    n: Floats  # (g,) points counted
    zeros: Floats  # (g,) points of norm zero among them; they have no direction
    total: Floats  # (g, d) Σx
    directions: Floats  # (g, d) Σu
    squared: Floats  # (d,) Σu² over all segments
    norm: Floats  # (g,) Σ‖x‖
    norm2: Floats  # (g,) Σ‖x‖²
    nonfinite: int  # points with NaN or infinity; they are in none of the sums

    @classmethod
    def nothing(cls, g: int, d: int) -> Sums:
        """The sums of no points."""
        return cls(np.zeros(g), np.zeros(g), np.zeros((g, d)), np.zeros((g, d)), np.zeros(d), np.zeros(g), np.zeros(g), 0)

    @classmethod
    def chain(cls, parts: list[Sums]) -> Sums:
        """The segments of all parts, one after the other."""

        def column(name: str) -> Floats:
            return np.concatenate([getattr(part, name) for part in parts])

        squared = np.sum([part.squared for part in parts], axis=0)
        n, zeros, total, directions, norm, norm2 = map(column, ("n", "zeros", "total", "directions", "norm", "norm2"))
        return cls(n, zeros, total, directions, squared, norm, norm2, sum(part.nonfinite for part in parts))


def block_sums(x: Block, mask: Block | None = None, *, directions_only: bool = False) -> Sums:
    """The sums of a block.

    Args:
        x: (g, t, d) points in g segments, as `as_block` gives them.
        mask: (g, t), true where a point counts; all of them if None. What is masked reaches no sum, not even as NaN.
        directions_only: leave out Σx and Σu², which the mean cosine does not need.
    """
    g, t, d = x.shape
    xp, sums = namespace(x), Sums.nothing(g, d)
    rows = TILE_ROWS if isinstance(x, np.ndarray) else g * t
    across, along = (max(1, rows // max(t, 1)), t) if t < rows else (1, rows)
    like: dict[str, Any] = {"dtype": x.dtype} | ({} if isinstance(x, np.ndarray) else {"device": x.device})
    ones, scratch = xp.ones(d, **like), xp.empty((min(across, g), min(along, t), d), **like)
    for i in range(0, g, across):
        for j in range(0, t, max(along, 1)):
            tile = x[i : i + across, j : j + along]
            weight = xp.ones(tile.shape[:2], **like)
            if mask is not None:
                weight = weight * mask[i : i + across, j : j + along]
            square = xp.multiply(tile, tile, out=scratch[: tile.shape[0], : tile.shape[1]])
            norm2 = square @ ones
            if not np.isfinite(float(norm2.sum())):
                finite = xp.isfinite(norm2)
                sums.nonfinite += int((~finite & (weight > 0)).sum())
                weight = weight * finite
                tile = xp.where(finite[..., None], tile, xp.zeros_like(tile))
                square = tile * tile
                norm2 = square @ ones
            _add_tile(sums, slice(i, i + across), tile, square, norm2, weight, directions_only)
    return sums


def _add_tile(sums: Sums, at: slice, tile: Block, square: Block, norm2: Block, weight: Block, directions_only: bool) -> None:
    xp = namespace(tile)
    norm = xp.sqrt(norm2) * weight
    alive = norm > 0
    inverse = xp.where(alive, weight / xp.where(alive, norm, xp.ones_like(norm)), xp.zeros_like(norm))
    counted = weight.sum(-1)
    sums.n[at] += to_host(counted)
    sums.zeros[at] += to_host(counted - alive.sum(-1))
    sums.norm[at] += to_host(norm.sum(-1))
    sums.norm2[at] += to_host((norm2 * weight).sum(-1))
    sums.directions[at] += to_host((inverse[:, None, :] @ tile)[:, 0])
    if not directions_only:
        sums.total[at] += to_host((weight[:, None, :] @ tile)[:, 0])
        sums.squared += to_host((inverse * inverse).reshape(-1) @ square.reshape(-1, tile.shape[-1]))
