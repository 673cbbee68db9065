"""The statistics of a matrix that is read in blocks. Its items are its rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from isoscope.core.errors import IsoscopeError, IsoscopeWarning
from isoscope.core.memory import memory_left
from isoscope.core.site import POINTS
from isoscope.statistics.jackknife_groups import GROUPS
from isoscope.statistics.kernel import Sums, as_block, block_sums, to_host
from isoscope.statistics.sample import mix, point_hashes
from isoscope.statistics.site_statistics import SiteStatistics

READ_ROWS = 4096
RUN = 512
"""In a large matrix, runs of so many rows share a group of the jackknife: their sum falls out of the kernel for nothing."""


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
    """The statistics of a matrix of n rows that comes in blocks of rows (of at most 4096), from row `start` on.

    Blocks are reduced in their own precision where only sums are read, and in float64 where second moments are.
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
    needed, there = (second + cosine) * 8 * d * d, memory_left()
    if needed > there:
        raise IsoscopeError(
            f"{name} has {d:,} columns, whose second moments take {needed / 1e9:,.0f} GB, and {there / 1e9:,.0f} GB are free; name metrics "
            "that need none (--metric mean_cosine), or give fewer columns."
        )
    statistics = SiteStatistics(d, [POINTS], second=second, cosine=cosine, sample=sample if parts & {"sample", "neighbours"} else 0)
    run = RUN if n >= GROUPS * RUN else 1
    bad, first_bad, at = 0, -1, start
    for raw in blocks:
        block = points = as_block(raw)
        if (second or cosine) and (isinstance(block, np.ndarray) or block.device.type == "cpu"):
            block = to_host(block)
        here = _add_block(statistics, block, points, at, run, seed, directions_only=parts <= {"directions", "groups"})
        if here and not bad:
            first_bad = at + int(np.flatnonzero(~np.isfinite(to_host(points)).all(1))[0])
        bad += here
        at += len(block)
        progress(len(block))
    if bad:
        raise IsoscopeError(f"{name} has {bad} of {n} rows with NaN or infinity, the first at row {first_bad}; correct or remove them.")
    return statistics


def _add_block(statistics: SiteStatistics, block: Any, points: Any, at: int, run: int, seed: int, *, directions_only: bool) -> int:
    """Add a block and, to the sample, the same points in the precision that they came in; return how many rows are not finite."""
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
        unit = mix(row.astype(np.uint64))
        hashes = point_hashes(seed, unit, np.zeros(rows, dtype=np.int64))
        statistics.sample.update(points, hashes, unit, row, np.zeros(rows, dtype=np.int16))
    return sums.nonfinite


def _by_runs(block: Any, at: int, run: int, *, directions_only: bool) -> tuple[Sums, np.ndarray]:
    """The sums of each run of rows, cut where the absolute row number says, so that a shard cuts as the whole does."""
    first = min(-at % run, len(block))
    last = first + (len(block) - first) // run * run
    whole = block[first:last].reshape(-1, run, block.shape[1])
    parts = [part for part in (block[None, :first], whole, block[None, last:]) if part.shape[0] and part.shape[1]]
    starts = [at] * bool(first) + list(range(at + first, at + last, run)) + [at + last] * (last < len(block))
    return Sums.chain([block_sums(part, directions_only=directions_only) for part in parts]), np.array(starts) // run % GROUPS


def say_zeros(statistics: SiteStatistics, name: str) -> None:
    """Zero vectors are said aloud; a matrix of nothing else is refused."""
    moments = statistics.moments[0]
    if moments.zeros == moments.n:
        raise IsoscopeError(f"All {moments.n} vectors of {name} are zero; they have no direction to measure.")
    if moments.zeros:
        warnings.warn(
            f"{moments.zeros} of {moments.n} vectors of {name} are zero; they have no direction and are left out of the cosines.",
            IsoscopeWarning,
            stacklevel=4,
        )
