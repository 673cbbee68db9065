"""Exact nearest neighbours: products in float32 find candidates, direct differences in float64 decide.

Points are centred and products are taken block by block, each pair once. A bound on the rounding of a product shows, for each point,
whether a point that is not a candidate could be nearer than those found. If so, every point that the products do not rule out is compared
directly. So the answer is that of a search in float64 over the points as they are stored.
"""

from __future__ import annotations

import time
import warnings
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np

from isoscope.core.errors import IsoscopeError
from isoscope.core.numerics import Floats, load_compiled
from isoscope.estimation import neighbours_plain
from isoscope.statistics.kernel import one_thread

ROWS, COLUMNS = 1024, 2048
"""Products that each thread holds at a time: with larger blocks, BLAS spends less of its time on packing its factors."""
LEAF = 256
"""Products of more points than this with themselves are divided into tiles, so that few pairs are computed twice."""
UNIT = 2.0**-24
"""The largest relative error of rounding to float32."""
SPAN = 2.0**50
"""Coordinates are scaled so that no point is longer than this: products neither overflow nor, where they matter, vanish."""

Tile = tuple[slice, slice]


@dataclass(frozen=True)
class Neighbours:
    """The k nearest of each of n distinct points."""

    distances: Floats
    """(n, k) Euclidean, increasing along the row."""
    indices: np.ndarray
    """(n, k) the numbers of these neighbours among the distinct points; of equally near points the first is preferred."""
    kept: np.ndarray
    """(n,) the number of each distinct point among the given points: the first of each set of equal points."""
    owner: np.ndarray
    """(m,) the number, among the distinct points, of each given point or its equal."""
    again: int = 0
    """Points whose neighbours were in doubt because of rounding, and were searched for a second time."""

    @property
    def duplicates(self) -> int:
        """Points left out because an equal one came before them."""
        return len(self.owner) - len(self.kept)


def neighbours(
    points: np.ndarray, k: int, *, reach: int | None = None, threads: int | None = None, progress: Callable[[int], None] = lambda rows: None
) -> Neighbours:
    """Return the k nearest neighbours of each distinct point, the same as a search in float64 over the points as they are stored.

    Args:
        points: (m, d) numbers.
        k: neighbours that every point must have.
        reach: the number of neighbours to find if there are enough points.
        threads: by default as many as BLAS has now.
        progress: is called with the number of rows done since the last call; they add up to the distinct points.
    """
    points, stretch = _normalise(points)
    kept, owner, largest = _distinct(points)
    n = len(kept)
    if n < k + 1:
        raise IsoscopeError(f"{k} neighbours of each point need at least {k + 1} distinct points; there are {n}.")
    k = max(k, min(reach or k, n - 1))
    with one_thread() as blas:
        search = _Search(points, kept, k, largest, threads or _original_threads(blas))
        search.all_pairs(progress)
        again = search.settle()
    return Neighbours(np.sqrt(search.squares) * stretch, search.chosen, kept, owner, again)


def distinct(points: np.ndarray) -> np.ndarray:
    """Return the numbers of the first point of each set of equal points (m, d), in the given order; NaN and infinity are refused.

    >>> distinct(np.array([[0.0, 1.0], [2.0, 1.0], [-0.0, 1.0]])).tolist()
    [0, 1]
    """
    return _distinct(_normalise(points)[0])[0]


def _original_threads(blas: Any) -> int:
    """Return the threads that BLAS had before it was limited."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # if libraries differ, threadpoolctl warns and takes the fewest
        return blas.get_original_num_threads()["blas"] or 1


def _normalise(points: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the points as contiguous float32 or float64 whose squares neither overflow nor vanish, and the factor of distances."""
    points = np.asarray(points)
    if points.ndim != 2:
        raise IsoscopeError(f"Neighbours are found among the rows of a matrix; got an array of shape {points.shape}.")
    narrow = points.dtype in (np.float32, np.float16, np.int8, np.uint8, np.int16, np.uint16, np.bool_)
    points = np.ascontiguousarray(points, dtype=np.float32 if narrow else np.float64)
    if narrow or not points.size:
        return points, 1.0
    largest = max(float(points.max()), -float(points.min()))
    if not np.isfinite(largest) or 1e-100 < largest < 1e100 or largest == 0:
        return points, 1.0
    exponent = int(np.frexp(largest)[1])
    return np.ldexp(points, -exponent), float(np.ldexp(1.0, exponent))


def row_hashes(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (m,) a 64-bit hash of each row of contiguous float32 or float64, and the bits of its largest absolute value."""
    word, whole = (np.uint64, 64) if points.dtype == np.float64 else (np.uint32, 32)
    factors = np.random.default_rng(0).integers(2**64, size=points.shape[1], dtype=np.uint64, endpoint=False) | np.uint64(1)
    hashes, sizes = np.empty(len(points), np.uint64), np.empty(len(points), np.uint64)
    passes().fingerprints(points.view(word), np.uint64(1 << (whole - 1)), np.uint64(whole // 2), factors, hashes, sizes)
    return hashes, sizes


def _distinct(points: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Return the first of each set of equal points, the number of each point's set, and the largest absolute value."""
    hashes, sizes = row_hashes(points)
    word = np.uint64 if points.dtype == np.float64 else np.uint32
    infinite = np.array([np.inf], points.dtype).view(word)[0]
    bad = int((sizes >= infinite).sum())
    if bad:
        raise IsoscopeError(f"{bad} of {len(points)} points hold NaN or infinity, and have no neighbours; remove or correct them first.")
    order = np.argsort(hashes, kind="stable")
    same = np.flatnonzero(hashes[order][1:] == hashes[order][:-1])
    first = np.arange(len(points))
    if len(same):
        starts = np.flatnonzero(np.diff(same, prepend=-2) > 1)
        for run in np.split(same, starts[1:]):  # points of one hash are almost always equal, but only their values prove it
            members = order[run[0] : run[-1] + 2]
            while len(members) > 1:
                alike = (points[members] == points[members[0]]).all(1)
                first[members[alike]] = members[0]
                members = members[~alike]
    largest = float(np.array([sizes.max(initial=0)], np.uint64).astype(word).view(points.dtype)[0])
    kept, owner = np.unique(first, return_inverse=True)
    return kept, owner, largest


def rounding(d: int) -> float:
    """Return c with ‖a − b‖² ≥ (1 − c)(‖a‖² + ‖b‖²) − 2·p, where p is the float32 product of a and b, both rounded to float32.

    A sum of d products in any order is wrong by at most γ‖a‖‖b‖ ≤ γ(‖a‖² + ‖b‖²)/2, γ = d·u/(1 − d·u) (Higham 2002, §3.1). Rounding
    the coordinates adds at most 2u(‖a‖² + ‖b‖²), both to the product and to the lengths. The bound is a sum of one part for a and one
    for b, so a point that lies far out puts no other point in doubt.
    """
    return d * UNIT / (1 - d * UNIT) + 4.1 * UNIT


def spare(k: int, d: int) -> int:
    """Return how many candidates to keep beyond k, so that rounding rarely leaves a doubt. The doubt grows with the dimension."""
    return 3 + d // 1024 + k // 8


def passes() -> Any:
    """Return the passes over the data, compiled if numba is installed."""
    # Both exist because numba is optional, and because a search makes up most of a measurement of intrinsic dimension: one among 4096 × 768
    # points takes 0.28 s of CPU compiled and 1.06 s in numpy, one for 128 neighbours 1.05 s and 4.0 s, and eight more give the null.
    return load_compiled("isoscope.estimation.neighbours_fused") or neighbours_plain


class _Search:
    """The candidates of all points, and the nearest that were found among them."""

    def __init__(self, points: np.ndarray, kept: np.ndarray, k: int, largest: float, threads: int) -> None:
        n, d = len(kept), points.shape[1]
        self.points, self.kept, self.threads = points, kept, threads
        # A median, because a few far points would draw a mean away from the others, whose products would then lose digits.
        middle = np.median(points[kept[:: -(-n // 65)]].astype(np.float64), axis=0)
        self.scale = 2.0 ** np.floor(np.log2(SPAN / (2 * max(largest, 1e-300) * max(d, 1) ** 0.5)))
        self.x, self.half = np.empty((n, d), np.float32), np.empty(n)
        self._share(n, lambda at: passes().centre(points, kept, middle, self.scale, at.start, at.stop, self.x, self.half))
        self.loss = rounding(d)
        self.ceiling = self.half * (1 - self.loss) - d * 2.0**-125  # the last is what can vanish from a sum of products
        # A candidate's score is p − (1 − c)‖b‖²/2, so the best score has the smallest bound on the distance. Rounded down to float32,
        # ‖b‖² errs only towards keeping a candidate.
        self.lowered = np.nextafter((self.half * (1 - self.loss)).astype(np.float32), np.float32(-np.inf))
        m = k + spare(k, d)
        self.scores, self.indices = np.full((n, m), -np.inf, np.float32), np.full((n, m), -1, np.int32)
        self.limit = np.full(n, -np.inf, np.float32)
        self.squares, self.chosen = np.full((n, k), np.inf), np.full((n, k), -1, np.int64)

    def _share(self, n: int, work: Callable[[slice], None]) -> None:
        """Do the work on n rows, by all threads."""
        self._each(_slices(0, n, LEAF), lambda: work)

    def _each(self, tasks: list[Any], worker: Callable[[], Callable[[Any], None]], told: Callable[[], None] = lambda: None) -> None:
        """Do all tasks by all threads, this one included; only this one reports progress."""
        left = deque(tasks)

        def drain(told: Callable[[], None] = lambda: None) -> None:
            work = worker()
            while True:
                try:
                    task = left.popleft()
                except IndexError:  # another thread took the last one
                    return
                work(task)
                told()

        count = min(self.threads, len(tasks))
        if count < 2:
            drain(told)
            return
        with ThreadPoolExecutor(count - 1) as pool:
            try:
                others = [pool.submit(drain) for _ in range(count - 1)]
                drain(told)
            finally:
                left.clear()
            for other in others:
                other.result()

    def all_pairs(self, progress: Callable[[int], None]) -> None:
        """Offer every pair to the candidates of both its points, and find the nearest among the candidates."""
        n = len(self.x)
        locks = [Lock() for _ in range(0, n, ROWS)]
        offered: list[int] = []
        told = 0

        def worker() -> Callable[[Tile], None]:
            buffer = self._buffer()

            def work(tile: Tile) -> None:
                rows, columns = tile
                products = _products(self.x[rows], self.x[columns], buffer)
                with ExitStack() as held:
                    # A tile changes the candidates of its rows and of its columns. Locks are taken in one order, so no two threads can
                    # wait for each other.
                    for block in sorted({at // ROWS for part in tile for at in range(part.start, part.stop, LEAF)}):
                        held.enter_context(locks[block])
                    passes().offer(products, rows.start, columns.start, self.lowered, self.limit, self.scores, self.indices)
                offered.append(products.size if rows != columns else products.size // 2)

            return work

        def tell() -> None:
            nonlocal told
            rows = min(n, 2 * sum(offered) // n)
            progress(rows - told)
            told = rows

        # The largest tiles come first, so that at the end no thread starts a long one while the others are done.
        self._each(sorted(_tiles(0, n), key=lambda tile: -len(range(n)[tile[0]]) * len(range(n)[tile[1]])), worker, tell)
        self._share(n, self._refine)
        progress(n - told)

    def _buffer(self) -> np.ndarray:
        n = len(self.x)
        return np.empty(min(n, ROWS) * min(n, COLUMNS), np.float32)

    def _refine(self, at: slice) -> None:
        unscaled = 2 * (1 - 1e-9) / self.scale**2
        kept, found = (self.points, self.kept), (self.squares, self.chosen)
        passes().refine(*kept, at.start, at.stop, self.scores, self.indices, self.ceiling, unscaled, *found)

    def settle(self) -> int:
        """Search again for points that could have a nearer neighbour among those that are no candidates; return how many."""
        # In the units of scores: half squared distances of scaled points. The factor covers the rounding of the float64 sums.
        worst = self.squares[:, -1] * self.scale**2 * (1 + 1e-9) / 2
        limit = np.maximum(self.limit.astype(np.float64), -(SPAN**4))  # if every point is a candidate, none is outside
        outside = self.ceiling - limit - UNIT * np.abs(limit)
        doubtful = np.flatnonzero(~(outside > worst))
        needed = (self.ceiling - worst)[doubtful]
        needed = np.nextafter((needed - 2 * UNIT * np.abs(needed)).astype(np.float32), np.float32(-np.inf))
        self.squares[doubtful], self.chosen[doubtful] = np.inf, -1
        n = len(self.x)

        def worker() -> Callable[[slice], None]:
            buffer = self._buffer()

            def work(at: slice) -> None:
                rows = doubtful[at]
                ours = self.x[rows]
                for columns in _slices(0, n, COLUMNS):
                    products = _products(ours, self.x[columns], buffer)
                    found = (self.points, self.kept), (self.squares, self.chosen)
                    passes().reconsider(products, rows, columns.start, self.lowered, needed[at], *found[0], *found[1])

            return work

        step = max(1, min(LEAF, -(-len(doubtful) // self.threads)))
        self._each(_slices(0, len(doubtful), step), worker)
        return len(doubtful)


def _products(a: np.ndarray, b: np.ndarray, buffer: np.ndarray) -> np.ndarray:
    """Return the products (rows of a, rows of b), in the buffer."""
    return np.matmul(a, b.T, out=buffer[: len(a) * len(b)].reshape(len(a), len(b)))


def _slices(start: int, stop: int, size: int) -> list[slice]:
    return [slice(at, min(at + size, stop)) for at in range(start, stop, size)]


def _tiles(start: int, stop: int) -> list[Tile]:
    """Return blocks of rows and columns that hold every pair of these points once; those on the diagonal hold it twice."""
    if stop - start <= LEAF:
        return [(slice(start, stop), slice(start, stop))]
    # A power of two times LEAF, so that all tiles begin at multiples of LEAF and the locks of blocks fit them.
    half = LEAF
    while 2 * half < stop - start:
        half *= 2
    middle = start + half
    apart = [(rows, columns) for rows in _slices(start, middle, ROWS) for columns in _slices(middle, stop, COLUMNS)]
    return apart + _tiles(start, middle) + _tiles(middle, stop)


def estimate(n: int, d: int, threads: int | None = None) -> float:
    """Estimate the seconds that a search among n points in d dimensions takes here, from one among a few random points."""
    few = min(n, 4 * ROWS)
    points = np.random.default_rng(0).standard_normal((few, d), dtype=np.float32)
    neighbours(points[: min(few, 8)], 1, threads=threads)  # compiles, which must not be timed
    started = time.perf_counter()
    neighbours(points, min(2, few - 1), threads=threads)
    return (time.perf_counter() - started) * (n / few) ** 2
