"""All metrics of one matrix, in memory or on disk. Nothing here needs torch."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from isoscope.core.number import Number
from isoscope.engine.progress import Progress
from isoscope.engine.rows import numbers
from isoscope.metrics import registry
from isoscope.statistics.cloud import PARTS, Cloud
from isoscope.statistics.matrix import accumulate, cloud_of, say_zeros
from isoscope.statistics.metric import Metric


def geometry(
    matrix: Any,
    *,
    metric: str | list[str] | None = None,
    allow_wide: bool = False,
    sample: int = 4096,
    seed: int = 0,
    key: str | None = None,
    quiet: bool = True,
) -> dict[str, Number]:
    """Every metric of a matrix (n, d), one row a point; or those that are named.

    Args:
        matrix: an array, a torch tensor, or the path of a .npy, .npz, .safetensors or .parquet file, which is read in blocks.
        metric: one name or several; all by default.
        allow_wide: take a matrix with more columns than rows; it is refused otherwise, because it is so often transposed.
        sample: how many points the metrics that need a second look may hold.
        seed: chooses the sample.
        key: which array of a file that holds several.
        quiet: show no progress.

    >>> geometry([[3.0, 4.0], [0.0, 1.0], [3.0, 4.0], [0.0, 5.0]], metric="mean_norm")
    {'mean_norm': 4.0}
    """
    names = [metric] if isinstance(metric, str) else metric
    reads = PARTS if names is None else sorted({part for name in names for part in _parts(name)})
    return numbers(_cloud(matrix, reads, allow_wide, sample, seed, key, Progress(quiet=quiet)), names)


def _parts(name: str) -> tuple[str, ...]:
    entry = registry[name]
    return entry.reads + (entry.wants if isinstance(entry, Metric) else ())


def _cloud(matrix: Any, reads: Any, allow_wide: bool, sample: int, seed: int, key: str | None, progress: Progress) -> Cloud:
    if not isinstance(matrix, str | os.PathLike):
        return cloud_of(matrix, reads, allow_wide=allow_wide, sample=sample, seed=seed)
    from isoscope.sources.arrays import open_array

    file = open_array(Path(matrix), key)
    with progress.bar(f"{file.name}: reading", file.n, "rows") as bar:
        statistics = accumulate(
            file.blocks(), file.n, file.d, reads, allow_wide=allow_wide, sample=sample, seed=seed, name=str(file.name), progress=bar.advance
        )
    say_zeros(statistics, str(file.name))
    cloud = statistics.cloud("all")
    assert cloud is not None
    return cloud
