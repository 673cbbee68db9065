"""All metrics of one matrix, in memory or on disk. Nothing here needs torch."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from isoscope.core.errors import IsoscopeError
from isoscope.core.number import Number
from isoscope.core.progress import Progress
from isoscope.core.text_table import WIDTH, align_groups, align_table, html_table, text_width
from isoscope.core.user_input import MAX_SAMPLE, MAX_SEED, check_count
from isoscope.core.wording import format_count, format_duration, format_interval, format_number
from isoscope.estimation.cloud import PARTS, Cloud
from isoscope.estimation.matrix_cloud import cloud_of, read_cloud
from isoscope.estimation.metric import Metric, Question
from isoscope.estimation.neighbours import estimate
from isoscope.metrics import registry
from isoscope.runs.rows import numbers

MANY = 16_384
"""The neighbours of more points take more than a few seconds."""
HEAD = ["metric", "value", "95 % interval", "isotropic"]


class Geometry(dict[str, Number]):
    """The numbers of a matrix by metric: a dictionary that shows itself as a table, with the metrics of one question together."""

    def __repr__(self) -> str:
        return "\n".join([self.describe_size(), *self.lines()]) if self else "Geometry without numbers"

    def _repr_html_(self) -> str:
        return f"<p>{escape(self.describe_size())}</p>{html_table(HEAD, self.rows())}" if self else escape(repr(self))

    def describe_size(self) -> str:
        """How many points there are, in how many dimensions."""
        n, d = (max((getattr(number, name) for number in self.values()), default=0) for name in ("n", "d"))
        return f"{format_count(n, 'point')} in {format_count(d, 'dimension')}"

    def by_question(self) -> dict[Question, list[str]]:
        """The metrics under the question that they answer, in the order of docs/metrics.md."""
        groups: dict[Question, list[str]] = {question: [] for question in Question}
        for name in sorted(self, key=lambda name: registry[name].position):
            groups[registry[name].question].append(name)
        return {question: names for question, names in groups.items() if names}

    def rows(self) -> list[list[str]]:
        """The cells of a table, one row per metric: its name, its value, its interval and its null."""
        names = [name for group in self.by_question().values() for name in group]
        return [[name, *number_cells(self[name])] for name in names]

    def lines(self) -> list[str]:
        """The lines of an aligned table, with the metrics of each question under it if there are several questions."""
        groups = self.by_question()
        if len(groups) < 2:
            return align_table(HEAD, self.rows()).splitlines()
        return align_numbers(HEAD, {question: [[name, *number_cells(self[name])] for name in names] for question, names in groups.items()})

    def to_frame(self) -> Any:
        """A pandas frame with every digit, one row per metric."""
        import pandas as pd

        return pd.DataFrame.from_dict({name: number.as_dict() for name, number in self.items()}, orient="index").rename_axis("metric")


def number_cells(number: Number) -> list[str]:
    """The value, the interval and the null with its standard deviation, as cells of a table.

    >>> number_cells(Number(0.5, n=9, d=4, low=0.4, high=0.6, null=0.0, null_sd=0.01))
    ['0.500', '0.400 to 0.600', '0.000 ± 0.01']
    """
    null = " ± ".join(filter(None, [number.format_null(), format_number(number.null_sd, missing="", digits=1)]))
    return [format_number(number, missing="–"), format_interval(number.low, number.high), null]


def align_numbers(head: Sequence[str], groups: Mapping[str, Sequence[Sequence[str]]]) -> list[str]:
    """The lines of a table whose last columns are `number_cells`, of at most 80 columns if leaving out standard deviations suffices.

    >>> rows = {"": [["x" * 60, *number_cells(Number(0.5, n=9, d=4, low=0.4, high=0.6, null=0.0, null_sd=0.01))]]}
    >>> align_numbers(["", "value", "interval", "isotropic"], rows)[-1].split()[1:]
    ['0.500', '0.400', 'to', '0.600', '0.000']
    """
    lines = align_groups(head, groups)
    if max(map(text_width, lines)) <= WIDTH:
        return lines
    return align_groups(head, {title: [[*row[:-1], row[-1].partition(" ± ")[0]] for row in rows] for title, rows in groups.items()})


def geometry(
    matrix: Any,
    *,
    metric: str | list[str] | None = None,
    allow_wide: bool = False,
    sample: int = 4096,
    seed: int = 0,
    key: str | None = None,
    quiet: bool = True,
) -> Geometry:
    """Every metric of a matrix (n, d), one row per point; or those that are named.

    Args:
        matrix: an array, a torch tensor, or the path of a file (.npy, .npz, .safetensors, .parquet, .csv, .tsv, .pt), read in blocks.
        metric: one name or several; all by default.
        allow_wide: take a matrix with more columns than rows; it is refused otherwise, because it is so often transposed.
        sample: how many points the metrics that need a second look may hold.
        seed: chooses the sample.
        key: which array of a file that holds several.
        quiet: show no progress.

    >>> geometry([[3.0, 4.0], [0.0, 1.0], [3.0, 4.0], [0.0, 5.0]], metric=["mean_norm", "mean_cosine"])
    4 points in 2 dimensions
    metric       value   95 % interval    isotropic
    <BLANKLINE>
    Do vectors point the same way?
    mean_cosine  0.867  0.867 to 0.867  0.000 ± 0.3
    <BLANKLINE>
    How much of that is a common mean?
    mean_norm     4.00   0.818 to 7.18
    """
    names = [metric] if isinstance(metric, str) else metric
    cloud = read_matrix(matrix, names, allow_wide=allow_wide, sample=sample, seed=seed, key=key, quiet=quiet)
    return Geometry(numbers(cloud, names))


def read_matrix(
    matrix: Any,
    names: list[str] | None = None,
    *,
    reads: Iterable[str] = PARTS,
    allow_wide: bool = False,
    sample: int = 4096,
    seed: int = 0,
    key: str | None = None,
    quiet: bool = True,
) -> Cloud:
    """The cloud of a matrix with all that these metrics read, or with the parts in `reads`; the other arguments are those of `geometry`."""
    reads = list(reads) if names is None else sorted({part for name in names for part in _parts(name)})
    progress = Progress(quiet=quiet)
    check_count("sample", sample, least=0, most=MAX_SAMPLE)
    check_count("seed", seed, least=0, most=MAX_SEED)
    cloud = _cloud(matrix, reads, allow_wide, sample, seed, key, progress)
    if "neighbours" in reads and cloud.sample is not None and len(cloud.sample) > MANY:
        _search(cloud, names, progress)
    return cloud


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
