"""All metrics of one matrix, in memory or on disk. Nothing here needs torch."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

from isoscope.core.errors import IsoscopeError
from isoscope.core.number import Number
from isoscope.core.progress import Progress
from isoscope.core.user_input import MAX_SAMPLE, MAX_SEED, check_count
from isoscope.core.wording import format_duration
from isoscope.estimation.cloud import PARTS, Cloud
from isoscope.estimation.matrix_cloud import cloud_of, read_cloud
from isoscope.estimation.metric import Metric
from isoscope.estimation.neighbours import estimate
from isoscope.metrics import registry
from isoscope.runs.rows import numbers

MANY = 16_384
"""The neighbours of more points take more than a few seconds."""


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
    """Every metric of a matrix (n, d), one row per point; or those that are named.

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
    progress = Progress(quiet=quiet)
    check_count("sample", sample, least=0, most=MAX_SAMPLE)
    check_count("seed", seed, least=0, most=MAX_SEED)
    cloud = _cloud(matrix, reads, allow_wide, sample, seed, key, progress)
    if "neighbours" in reads and cloud.sample is not None and len(cloud.sample) > MANY:
        _search(cloud, names, progress)
    return numbers(cloud, names)


def _search(cloud: Cloud, names: list[str] | None, progress: Progress) -> None:
    """Find the neighbours of many points; a note says beforehand how long it will take."""
    n, d = cloud.require_sample().points.shape
    # A search for more neighbours takes longer and more memory, so only metrics that were asked for by name start it.
    further = any(registry[name].on_request and "neighbours" in _parts(name) for name in names or [])
    progress.note(
        f"The neighbours of {n:,} points: about {format_duration(estimate(n, d))}, and as long again for an isotropic cloud of this size."
    )
    with progress.bar("neighbours", n, "points") as bar, contextlib.suppress(IsoscopeError):  # the metrics say why there are none
        cloud.neighbours(None if further else 2, progress=bar.advance)  # two are enough for `two_nn`


def _parts(name: str) -> tuple[str, ...]:
    entry = registry[name]
    return entry.reads + (entry.wants if isinstance(entry, Metric) else ())


def _cloud(matrix: Any, reads: Any, allow_wide: bool, sample: int, seed: int, key: str | None, progress: Progress) -> Cloud:
    if not isinstance(matrix, str | os.PathLike):
        return cloud_of(matrix, reads, allow_wide=allow_wide, sample=sample, seed=seed)
    from isoscope.sources.arrays import open_array

    file = open_array(Path(matrix), key)
    with progress.bar(f"{file.name}: reading", file.n, "rows") as bar:
        return read_cloud(
            file.blocks, file.n, file.d, reads, allow_wide=allow_wide, sample=sample, seed=seed, name=str(file.name), progress=bar.advance
        )
