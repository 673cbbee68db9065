"""What a metric is: a pure function of a cloud, with a range and a null, found by the name of its file."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np

from isoscope.core.errors import IsoscopeError
from isoscope.core.number import Number
from isoscope.statistics.attention_cloud import ATTENTION_PARTS, AttentionCloud
from isoscope.statistics.cloud import Cloud
from isoscope.statistics.declared import Declared
from isoscope.statistics.kernel import one_thread
from isoscope.statistics.matrix_cloud import cloud_of

ALONE = 2048
"""Up to this dimension one thread decomposes a matrix."""
Curve = tuple[np.ndarray, np.ndarray, np.ndarray]
"""x, y and weight of a series."""
Measured = Cloud | AttentionCloud
"""What a metric may be a function of: points, or rows of attention. Which it is, its `reads` tell."""


def about(reads: tuple[str, ...]) -> str:
    """What a metric that reads these parts is about: `attention` or `points`."""
    return "attention" if set(reads) & set(ATTENTION_PARTS) else "points"


def fits(name: str, reads: tuple[str, ...], points: Any) -> None:
    """Refuse to measure attention on points, and points on attention; and what was not kept of attention."""
    of_attention = about(reads) == "attention"
    if of_attention != isinstance(points, AttentionCloud):
        there, here = ("rows of attention", "points") if of_attention else ("points", "rows of attention")
        raise IsoscopeError(f"{name} is a number of {there}, and it was given {here}; `isoscope list metrics` says which is which.")
    missing = [part for part in reads if of_attention and not points.has(part)]
    if missing:
        raise IsoscopeError(f"{name} needs {missing[0].replace('_', ' and ')}, which were not kept of this attention.")


class Metric(Declared):
    """A metric: call it with a matrix (n, d), or with a `Cloud`; the result is a float that knows its interval and its null.

    Metrics of attention take an `AttentionCloud`.
    """

    def __init__(
        self,
        function: Callable[[Any], Number],
        *,
        reads: tuple[str, ...],
        range: tuple[float, float],
        title: str,
        wants: tuple[str, ...] = (),
        interval_about: str | None = None,
        at_least: int = 2,
        on_request: bool = False,
    ) -> None:
        super().__init__(function, title=title, on_request=on_request)
        self.reads, self.wants, self.range, self.at_least = reads, wants, range, at_least
        self.interval_about = interval_about
        self._function = function

    @property
    def about(self) -> str:
        """`points` or `attention`."""
        return about(self.reads)

    def available(self, cloud: Measured) -> bool:
        """Whether the cloud kept what this metric must have."""
        return cloud.n >= self.at_least and all(cloud.has(part) for part in self.reads)

    def __call__(self, points: Any, *, allow_wide: bool = False, sample: int = 4096, seed: int = 0) -> Number:
        """The metric of a matrix or a cloud. A matrix with more columns than rows is refused unless `allow_wide`."""
        fits(self.name, self.reads, points)
        cloud: Measured
        if isinstance(points, AttentionCloud):
            cloud = points
        else:
            cloud = cloud_of(points, self.reads + self.wants, allow_wide=allow_wide, sample=sample, seed=seed)
        if cloud.n < self.at_least:
            return Number(np.nan, n=cloud.n, d=cloud.d, note=f"needs at least {self.at_least} points")
        with one_thread() if cloud.d <= ALONE else contextlib.nullcontext():
            found = self._function(cloud)
        # A plugin may return a plain float, which `check_metric` reports.
        return found.set_interval_about(self.interval_about) if isinstance(found, Number) else found


def metric(
    *,
    reads: tuple[str, ...],
    range: tuple[float, float],
    title: str,
    wants: tuple[str, ...] = (),
    interval_about: str | None = None,
    at_least: int = 2,
    on_request: bool = False,
) -> Callable[[Callable[[Any], Number]], Metric]:
    """Declare the function below as the metric of its own name.

    Args:
        reads: the parts of a cloud that it needs (`isoscope.statistics.cloud.PARTS`, or of attention `ATTENTION_PARTS`).
        range: the smallest and the largest value it can take.
        title: what a figure calls it.
        wants: the parts that it uses where they were kept, for an interval.
        interval_about: what its interval is about, `POPULATION` or `THIS_N` of `isoscope.core.number`; None where it has no interval.
        at_least: the number of points below which it says nothing.
        on_request: whether it is computed only where it is named, because it takes seconds.
    """
    return lambda function: Metric(
        function,
        reads=reads,
        range=range,
        title=title,
        wants=wants,
        interval_about=interval_about,
        at_least=at_least,
        on_request=on_request,
    )


class Series(Declared):
    """What is not one number: a function from a cloud to x, y and weight."""

    def __init__(self, function: Callable[[Any], Curve], *, reads: tuple[str, ...], title: str, on_request: bool = False) -> None:
        super().__init__(function, title=title, on_request=on_request)
        self.reads, self._function = reads, function

    @property
    def about(self) -> str:
        """`points` or `attention`."""
        return about(self.reads)

    def available(self, cloud: Measured) -> bool:
        """Whether the cloud kept what this series must have."""
        return cloud.n >= 2 and all(cloud.has(part) for part in self.reads)

    def __call__(self, points: Any, *, allow_wide: bool = False) -> Curve:
        """The curve of a matrix or a cloud."""
        fits(self.name, self.reads, points)
        return self._function(points if isinstance(points, AttentionCloud) else cloud_of(points, self.reads, allow_wide=allow_wide))


def series(*, reads: tuple[str, ...], title: str, on_request: bool = False) -> Callable[[Callable[[Any], Curve]], Series]:
    """Declare the function below as the series of its own name; `on_request`, where it is computed only if named."""
    return lambda function: Series(function, reads=reads, title=title, on_request=on_request)
