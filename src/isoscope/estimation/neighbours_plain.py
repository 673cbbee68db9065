"""The passes of the neighbour search in numpy; `neighbours_fused` does the same, compiled, if numba is installed."""

from __future__ import annotations

import numpy as np

from isoscope.core.numerics import Floats

PAIRS = 1 << 17
"""Values of a row, times rows, that are worked on together."""


def _steps(start: int, stop: int, width: int) -> list[slice]:
    size = max(1, PAIRS // max(width, 1))
    return [slice(at, min(at + size, stop)) for at in range(start, stop, size)]


def fingerprints(bits: np.ndarray, sign: int, shift: int, factors: np.ndarray, hashes: np.ndarray, largest: np.ndarray) -> None:
    """A hash of each row of bits, in which −0.0 is 0.0, and the bits of its largest absolute value."""
    for at in _steps(0, len(bits), bits.shape[1]):
        values = bits[at].astype(np.uint64)
        sizes = values & ~np.uint64(sign)
        values[sizes == 0] = 0
        hashes[at], largest[at] = ((values ^ (values >> np.uint64(shift))) * factors).sum(1), sizes.max(1, initial=0)


def centre(
    points: np.ndarray, kept: np.ndarray, middle: Floats, scale: float, start: int, stop: int, centred: np.ndarray, half: Floats
) -> None:
    """Rows start to stop of (kept points − middle)·scale in float32, and half of the squared length of each."""
    for at in _steps(start, stop, points.shape[1]):
        centred[at] = (points[kept[at]].astype(np.float64) - middle) * scale
        half[at] = 0.5 * (centred[at].astype(np.float64) ** 2).sum(1)


def offer(
    products: np.ndarray, first: int, second: int, lowered: np.ndarray, limit: np.ndarray, scores: np.ndarray, indices: np.ndarray
) -> None:
    """Offer the pairs of a block of products, once each, to the candidates of their rows and of their columns.

    The block starts at row `first` and column `second`. A pair that it holds twice is offered once, and no point is offered to itself.
    """
    rows, columns = (np.arange(at, at + size) for at, size in zip((first, second), products.shape, strict=True))
    taken = rows[:, None] < columns  # a tile on the diagonal holds each pair twice
    for block, mask, own, others in ((products, taken, rows, columns), (products.T, taken.T, columns, rows)):
        offered = np.where(mask, block - lowered[others], np.float32(-np.inf))
        some = np.flatnonzero((offered > limit[own, None]).any(1))
        own = own[some]
        all_scores = np.concatenate([scores[own], offered[some]], 1)
        all_indices = np.concatenate([indices[own], np.broadcast_to(others.astype(indices.dtype), offered[some].shape)], 1)
        m = scores.shape[1]
        best = np.argpartition(-all_scores, m - 1, axis=1)[:, :m]
        scores[own] = np.take_along_axis(all_scores, best, 1)
        limit[own] = scores[own].min(1)
        indices[own] = np.where(scores[own] == -np.inf, -1, np.take_along_axis(all_indices, best, 1))


def _squared_distances(points: np.ndarray, row: int, others: np.ndarray) -> Floats:
    parts = [((points[others[at]].astype(np.float64) - points[row]) ** 2).sum(1) for at in _steps(0, len(others), points.shape[1])]
    return np.concatenate([np.zeros(0), *parts])


def _insert(squares: Floats, chosen: np.ndarray, values: Floats, indices: np.ndarray) -> None:
    """Put points in their places among the nearest; of equally near points the first are preferred."""
    values, indices = np.concatenate([squares, values]), np.concatenate([chosen, indices])
    order = np.lexsort((indices, values))[: len(squares)]
    squares[:], chosen[:] = values[order], indices[order]


def refine(
    points: np.ndarray,
    kept: np.ndarray,
    start: int,
    stop: int,
    scores: np.ndarray,
    indices: np.ndarray,
    ceiling: Floats,
    unscaled: float,
    squares: Floats,
    chosen: np.ndarray,
) -> None:
    """The nearest among the candidates of rows start to stop, by direct differences."""
    # All candidates are compared: the early end of the compiled pass would take a loop over candidates in Python.
    for i in range(start, stop):
        found = indices[i][indices[i] >= 0]
        _insert(squares[i], chosen[i], _squared_distances(points, kept[i], kept[found]), found)


def reconsider(
    products: np.ndarray,
    rows: np.ndarray,
    second: int,
    lowered: np.ndarray,
    needed: np.ndarray,
    points: np.ndarray,
    kept: np.ndarray,
    squares: Floats,
    chosen: np.ndarray,
) -> None:
    """The nearest of a few rows among the columns of a block whose products do not rule them out, by direct differences."""
    columns = np.arange(second, second + products.shape[1])
    for r, i in enumerate(rows):
        found = columns[(products[r] - lowered[columns] >= needed[r]) & (columns != i)]
        _insert(squares[i], chosen[i], _squared_distances(points, kept[i], kept[found]), found)
