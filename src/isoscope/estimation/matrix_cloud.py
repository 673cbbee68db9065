"""A matrix, in memory or read in blocks, as a cloud. Its items are its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from isoscope.core.errors import IsoscopeError
from isoscope.estimation.cloud import PARTS, Cloud
from isoscope.estimation.neighbours import row_hashes
from isoscope.statistics.kernel import as_block, to_host
from isoscope.statistics.matrix_statistics import READ_ROWS, accumulate, say_zeros
from isoscope.statistics.site_statistics import SiteStatistics

FAR_EXPONENT = 50
"""Squares of numbers beyond two to this power, up or down, may overflow or vanish in float32."""
MOST_HASHES = 1 << 24
"""Rows whose hashes are held to count duplicates, 128 MB of them."""


def cloud_of(
    matrix: Any,
    reads: Iterable[str] = PARTS,
    *,
    allow_wide: bool = False,
    sample: int = 4096,
    seed: int = 0,
    name: str = "the matrix",
) -> Cloud:
    """The cloud of a matrix (n, d) that is in memory: anything numpy can see, or a torch tensor."""
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
    """The cloud of a matrix of n rows that `read()` gives in blocks of at most 4096 rows.

    Where squares of the numbers would overflow or vanish, the matrix is read a second time in a larger or smaller unit of length.
    """
    parts = set(reads)
    options: dict[str, Any] = {"allow_wide": allow_wide, "sample": sample, "seed": seed, "name": name, "progress": progress}
    hashes: list[np.ndarray] = []
    blocks = _hash_rows(read(), n, hashes) if "neighbours" in parts else read()
    with np.errstate(over="ignore", invalid="ignore"):
        statistics = accumulate(blocks, n, d, parts, **options)
    exponent = _exponent(statistics)
    if abs(exponent) > FAR_EXPONENT:
        statistics = accumulate((np.ldexp(to_host(as_block(block)), -exponent) for block in read()), n, d, parts, **options)
    say_zeros(statistics, name)
    cloud = Cloud.of(statistics, "all")
    assert cloud is not None
    cloud.unit = 2.0**exponent if abs(exponent) > FAR_EXPONENT else 1.0
    cloud.duplicates = _count_duplicates(hashes, n) if hashes else None
    return cloud


def _exponent(statistics: SiteStatistics) -> int:
    """The power of two near the mean length of the points."""
    moments = statistics.moments[0]
    mean = moments.norm / max(moments.n, 1)
    return int(np.frexp(mean)[1]) if np.isfinite(mean) else np.finfo(np.float64).maxexp - 1


def _hash_rows(blocks: Iterable[Any], n: int, hashes: list[np.ndarray]) -> Iterator[Any]:
    """The blocks as they are, while the hashes of their rows are collected."""
    # Equal rows have equal hashes, so the part of all hashes below a limit holds the same part of all duplicates.
    limit = np.uint64(min(MOST_HASHES / n, 1.0) * (2**64 - 2**11))
    for raw in blocks:
        block = as_block(raw)
        found = row_hashes(np.ascontiguousarray(block if isinstance(block, np.ndarray) else block.cpu().numpy()))[0]
        hashes.append(found[found <= limit] if n > MOST_HASHES else found)
        yield block


def _count_duplicates(hashes: list[np.ndarray], n: int) -> int:
    """How many rows repeat an earlier one; estimated where there are too many rows to hold a hash of each."""
    kept = np.sort(np.concatenate(hashes))
    return round(int((kept[1:] == kept[:-1]).sum()) * max(n / MOST_HASHES, 1.0))


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
