"""The passes of the neighbour search, compiled or in numpy, on small inputs; and the same by brute force."""

from __future__ import annotations

from types import ModuleType

import numpy as np

N, D, K, M = 70, 6, 4, 9
"""Points, dimensions, neighbours and candidates; points are more than twice as many as the compiled pass compares together."""
WHOLE = [(slice(0, N), slice(0, N))]
TILES = [(slice(0, 40), slice(0, 40)), (slice(0, 40), slice(40, N)), (slice(40, N), slice(40, N))]
"""All pairs in one tile, and in three. A tile on the diagonal holds its pairs twice."""


def made_points() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((N, D)).astype(np.float32)


def grid() -> np.ndarray:
    """Points of which many are equally near to each other."""
    return np.stack(np.meshgrid(*[np.arange(3)] * 4), -1).reshape(-1, 4).astype(np.float32)


def brute_neighbours(points: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Squared distances and indices of the k nearest in float64; of equally near points the first."""
    x = points.astype(np.float64)
    squares = ((x[:, None] - x[None]) ** 2).sum(2)
    np.fill_diagonal(squares, np.inf)
    order = np.argsort(squares, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(squares, order, 1), order


def hash_rows(passes: ModuleType, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The hash of each row, and the bits of its largest absolute value."""
    word, bits = (np.uint64, 64) if points.dtype == np.float64 else (np.uint32, 32)
    factors = np.random.default_rng(1).integers(2**64, size=points.shape[1], dtype=np.uint64) | np.uint64(1)
    hashes, largest = np.empty(len(points), np.uint64), np.empty(len(points), np.uint64)
    passes.fingerprints(points.view(word), np.uint64(1 << (bits - 1)), np.uint64(bits // 2), factors, hashes, largest)
    return hashes, largest


def centre_points(passes: ModuleType, kept: np.ndarray, middle: np.ndarray, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """All rows but the first, which stays untouched at 7."""
    centred, half = np.full((len(kept), D), 7, np.float32), np.full(len(kept), 7.0)
    passes.centre(made_points(), kept, middle, scale, 1, len(kept), centred, half)
    return centred, half


def offer_pairs(passes: ModuleType, tiles: list[tuple[slice, slice]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The scores and indices of each point's candidates, best first, and the worst score, after all pairs of the tiles were offered."""
    x = made_points()
    half = (0.5 * (x.astype(np.float64) ** 2).sum(1)).astype(np.float32)
    scores, indices = np.full((N, M), -np.inf, np.float32), np.full((N, M), -1, np.int32)
    limit = np.full(N, -np.inf, np.float32)
    for rows, columns in tiles:
        passes.offer(np.ascontiguousarray(x[rows] @ x[columns].T), rows.start, columns.start, half, limit, scores, indices)
    order = np.argsort(-scores, axis=1)
    return np.take_along_axis(scores, order, 1), np.take_along_axis(indices, order, 1), limit


def refine_candidates(passes: ModuleType, points: np.ndarray, candidates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The K nearest among candidates whose scores rule none of them out; −1 is no candidate, and stands first."""
    squares, chosen = np.full((len(points), K), np.inf), np.full((len(points), K), -1, np.int64)
    scores = np.where(candidates < 0, -np.inf, np.inf).astype(np.float32)
    every = np.arange(len(points))
    passes.refine(points, every, 0, len(points), scores, candidates.astype(np.int32), np.zeros(len(points)), 2.0, squares, chosen)
    return squares, chosen


def search_again(passes: ModuleType, points: np.ndarray, rows: np.ndarray, needed: float) -> tuple[np.ndarray, np.ndarray]:
    """The K nearest of a few rows, whose products come in two blocks of columns; of the others nothing is known."""
    squares, chosen = np.full((len(points), K), np.inf), np.full((len(points), K), -1, np.int64)
    lowered = (0.5 * (points.astype(np.float64) ** 2).sum(1)).astype(np.float32)
    limits = np.full(len(rows), needed, np.float32)
    for columns in (slice(0, 33), slice(33, len(points))):
        products = np.ascontiguousarray(points[rows] @ points[columns].T)
        passes.reconsider(products, rows, columns.start, lowered, limits, points, np.arange(len(points)), squares, chosen)
    return squares, chosen
