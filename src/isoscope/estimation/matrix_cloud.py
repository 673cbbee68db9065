"""A matrix, in memory or read in blocks, as statistics and as a cloud. Its items are its rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from isoscope.core.errors import IsoscopeError, IsoscopeWarning
from isoscope.core.machine import memory_left
from isoscope.core.site import POINTS
from isoscope.estimation.cloud import PARTS, Cloud
from isoscope.estimation.neighbours import row_hashes
from isoscope.statistics.jackknife_groups import GROUPS
from isoscope.statistics.kernel import Sums, as_block, as_float64, block_sums
from isoscope.statistics.sample import mix, point_hashes
from isoscope.statistics.site_statistics import SiteStatistics

READ_ROWS = 4096
RUN = 512
"""In a large matrix, each run of this many rows shares a group of the jackknife: the kernel gives the sum of a run at no extra cost."""
FAR_EXPONENT = 50
"""Squares of numbers beyond two to this power, up or down, may overflow or vanish in float32."""
MOST_HASHES = 1 << 24
"""Rows whose hashes are held to count duplicates, 128 MB of them."""


def accumulate(
    blocks: Iterable[Any],
    n: int,
    d: int,
    reads: Iterable[str],
    *,
    allow_wide: bool = False,
    sample: int = 4096,
    seed: int = 0,
    start: int = 0,
    name: str = "the matrix",
    progress: Callable[[int], None] = lambda rows: None,
) -> SiteStatistics:
    """Return the statistics of a matrix of n rows that comes in blocks of at most 4096 rows, from row `start` on.

    Blocks are reduced in their own precision if only sums are read, and in float64 if second moments are.
    """
    if n < 2:
        raise IsoscopeError(f"The geometry of a cloud needs at least two points; {name} has {n}.")
    if d > n and not allow_wide:
        raise IsoscopeError(
            f"{name} has {n} rows and {d} columns: more dimensions than points. If rows are points, allow it "
            "(--allow-wide, allow_wide=True); if it is transposed, turn it round."
        )
    parts = set(reads)
    second, cosine = "second" in parts, "cosine" in parts
    needed, free = (second + cosine) * 8 * d * d, memory_left()
    if needed > free:
        raise IsoscopeError(
            f"{name} has {d:,} columns, whose second moments take {needed / 1e9:,.0f} GB, and {free / 1e9:,.0f} GB are free; name metrics "
            "that need none (--metric mean_cosine), or give fewer columns."
        )
    statistics = SiteStatistics(d, [POINTS], second=second, cosine=cosine, sample=sample if parts & {"sample", "neighbours"} else 0)
    run = RUN if n >= GROUPS * RUN else 1
    bad, first_bad, at = 0, -1, start
    for raw in blocks:
        # `points` go to the sample as they are stored: in float64 it would be twice as large. `block` is what the sums read. Second moments
        # agree with brute force in float64 to 1e-6 (docs/performance.md), which float32 products would not.
        block = points = as_block(raw)
        if second or cosine:
            block = as_float64(block)
        nonfinite = _add_block(statistics, block, points, at, run, seed, directions_only=parts <= {"directions", "groups"})
        # Bad rows do not stop the reading: the error then names how many there are, not only the first.
        if nonfinite and not bad:
            first_bad = at + int(np.flatnonzero(~np.isfinite(as_float64(points)).all(1))[0])
        bad += nonfinite
        at += len(block)
        progress(len(block))
    if bad:
        raise IsoscopeError(f"{name} has {bad} of {n} rows with NaN or infinity, the first at row {first_bad}; correct or remove them.")
    return statistics


def _add_block(statistics: SiteStatistics, block: Any, points: Any, at: int, run: int, seed: int, *, directions_only: bool) -> int:
    """Add a block and, to the sample, the same points in their own precision; return how many rows are not finite."""
    rows = len(block)
    row = np.arange(at, at + rows)
    if run == 1:
        group = (mix(row.astype(np.uint64)) % np.uint64(GROUPS)).astype(np.int64)
        sums = block_sums(block[:, None, :], directions_only=directions_only)
    else:
        sums, group = _by_runs(block, at, run, directions_only=directions_only)
    if statistics.groups is not None:
        statistics.groups.update(group, [sums])
    if sums.nonfinite == 0:  # one such row ends the measurement; the rest is read only to count them all
        statistics.moments[0].add(sums, block)
    if statistics.sample is not None and sums.nonfinite == 0:
        unit = mix(row.astype(np.uint64))  # by row number, so that blocks and shards of any size draw the same points
        hashes = point_hashes(seed, unit, np.zeros(rows, dtype=np.int64))
        statistics.sample.update(points, hashes, unit, row, np.zeros(rows, dtype=np.int16))
    return sums.nonfinite


def _by_runs(block: Any, at: int, run: int, *, directions_only: bool) -> tuple[Sums, np.ndarray]:
    """Return the sums of each run of rows. Runs start at fixed row numbers of the whole matrix, so that a shard makes the same ones."""
    first = min(-at % run, len(block))
    last = first + (len(block) - first) // run * run
    whole = block[first:last].reshape(-1, run, block.shape[1])
    parts = [part for part in (block[None, :first], whole, block[None, last:]) if part.shape[0] and part.shape[1]]
    starts = [at] * bool(first) + list(range(at + first, at + last, run)) + [at + last] * (last < len(block))
    return Sums.chain([block_sums(part, directions_only=directions_only) for part in parts]), np.array(starts) // run % GROUPS


def report_zeros(statistics: SiteStatistics, name: str) -> None:
    """Warn of zero vectors, and refuse a matrix of nothing else."""
    moments = statistics.moments[0]
    if moments.zeros == moments.n:
        raise IsoscopeError(f"All {moments.n} vectors of {name} are zero; they have no direction to measure.")
    if moments.zeros:
        warnings.warn(
            f"{moments.zeros} of {moments.n} vectors of {name} are zero; they have no direction and are left out of the cosines.",
            IsoscopeWarning,
            stacklevel=4,
        )


def cloud_of(
    matrix: Any, reads: Iterable[str] = PARTS, *, allow_wide: bool = False, sample: int = 4096, seed: int = 0, name: str = "the matrix"
) -> Cloud:
    """Return the cloud of a matrix (n, d) in memory, which is anything numpy can see, or a torch tensor."""
    if isinstance(matrix, Cloud):
        return matrix
    block = _two_dimensional(matrix, name)

    def read() -> Iterator[Any]:
        return (block[i : i + READ_ROWS] for i in range(0, len(block), READ_ROWS))

    return read_cloud(read, len(block), block.shape[1], reads, allow_wide=allow_wide, sample=sample, seed=seed, name=name)


def read_cloud(
    read: Callable[[], Iterable[Any]],
    n: int,
    d: int,
    reads: Iterable[str] = PARTS,
    *,
    allow_wide: bool = False,
    sample: int = 4096,
    seed: int = 0,
    name: str = "the matrix",
    progress: Callable[[int], None] = lambda rows: None,
) -> Cloud:
    """Return the cloud of a matrix of n rows that `read()` gives in blocks of at most 4096 rows.

    If squares of the numbers would overflow or vanish, the matrix is read a second time, in another unit of length.
    """
    parts = set(reads)
    options: dict[str, Any] = {"allow_wide": allow_wide, "sample": sample, "seed": seed, "name": name, "progress": progress}
    hashes: list[np.ndarray] = []
    blocks = _hash_rows(read(), n, hashes) if "neighbours" in parts else read()
    with np.errstate(over="ignore", invalid="ignore"):
        statistics = accumulate(blocks, n, d, parts, **options)
    # Whether squares overflowed shows only in the sums, so the first reading is the test; almost no matrix needs the second. The unit is
    # a power of two, so that scaling loses no digit and all ratios stay as they are.
    exponent = _exponent(statistics)
    if abs(exponent) > FAR_EXPONENT:
        statistics = accumulate((np.ldexp(as_float64(as_block(block)), -exponent) for block in read()), n, d, parts, **options)
    report_zeros(statistics, name)
    cloud = Cloud.of(statistics, "all")
    assert cloud is not None
    cloud.unit = 2.0**exponent if abs(exponent) > FAR_EXPONENT else 1.0
    cloud.duplicates = _count_duplicates(hashes, n) if hashes else None
    return cloud


def _exponent(statistics: SiteStatistics) -> int:
    """Return the power of two near the mean length of the points."""
    moments = statistics.moments[0]
    mean = moments.norm / max(moments.n, 1)
    return int(np.frexp(mean)[1]) if np.isfinite(mean) else np.finfo(np.float64).maxexp - 1


def _hash_rows(blocks: Iterable[Any], n: int, hashes: list[np.ndarray]) -> Iterator[Any]:
    """Yield the blocks unchanged, and collect the hashes of their rows."""
    # Equal rows have equal hashes, so the part of all hashes below a limit holds the same part of all duplicates.
    limit = np.uint64(min(MOST_HASHES / n, 1.0) * (2**64 - 2**11))
    for raw in blocks:
        block = as_block(raw)
        of_block = row_hashes(np.ascontiguousarray(block))[0]
        hashes.append(of_block[of_block <= limit] if n > MOST_HASHES else of_block)
        yield block


def _count_duplicates(hashes: list[np.ndarray], n: int) -> int:
    """Return how many rows repeat an earlier one, estimated if there are too many rows to hold a hash of each."""
    ordered = np.sort(np.concatenate(hashes))
    return round(int((ordered[1:] == ordered[:-1]).sum()) * max(n / MOST_HASHES, 1.0))


def _two_dimensional(matrix: Any, name: str) -> Any:
    if not hasattr(matrix, "detach"):
        try:
            matrix = np.asarray(matrix)
        except ValueError as error:
            raise IsoscopeError(
                f"A matrix of points has the shape (n, d), one row a point; the rows of {name} differ in length."
            ) from error
        if matrix.dtype.kind not in "fiub":
            raise IsoscopeError(f"Points must be real numbers; {name} holds {matrix.dtype}.")
        if matrix.dtype.kind in "iub" or matrix.dtype.itemsize >= 8:
            matrix = matrix.astype(np.float64, copy=False)
    elif not matrix.is_floating_point():
        if matrix.is_complex():
            raise IsoscopeError(f"Points must be real numbers; {name} holds {matrix.dtype}.")
        matrix = matrix.double()
    if len(matrix.shape) != 2 or not matrix.shape[1]:
        raise IsoscopeError(f"A matrix of points has the shape (n, d), one row a point; {name} has the shape {tuple(matrix.shape)}.")
    return as_block(matrix)
