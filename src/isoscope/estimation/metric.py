"""Metrics and series: pure functions of a cloud. A metric gives one number with its range and its null, a series gives a curve."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np

from isoscope.core.number import Number
from isoscope.estimation.declaration import Declaration, Question, decorator_for
from isoscope.statistics.kernel import one_thread

ONE_THREAD_DIMENSIONS = 2048
"""Up to this dimension a matrix is decomposed on one thread: more threads cost more than they give."""
Curve = tuple[np.ndarray, np.ndarray, np.ndarray]
"""x, y and weight of a series."""


class Metric(Declaration):
    """A function from a cloud to one `Number`. Call it with a matrix (n, d) or a `Cloud`; a metric of attention takes an `AttentionCloud`.

    Args:
        reads: the parts of a cloud that it cannot do without (`isoscope.plugins.PARTS`, or `ATTENTION_PARTS` for attention).
        range: the smallest and the largest value that it can take.
        title: what a figure calls it.
        question: the section of docs/metrics.md that lists it.
        wants: the parts that it uses if they were kept, for an interval.
        interval_about: what its interval is about, `POPULATION` or `THIS_N`; None if it has no interval.
        at_least: the number of points below which it is NaN.
        on_request: whether it is computed only if it is named, because it takes seconds per layer.
    """

    def __init__(
        self,
        function: Callable[[Any], Number],
        *,
        reads: tuple[str, ...],
        range: tuple[float, float],
        title: str,
        question: Question = Question.OTHER,
        wants: tuple[str, ...] = (),
        interval_about: str | None = None,
        at_least: int = 2,
        on_request: bool = False,
    ) -> None:
        super().__init__(function, title=title, question=question, reads=reads, wants=wants, at_least=at_least, on_request=on_request)
        self.range, self.interval_about, self._function = range, interval_about, function

    def __call__(self, points: Any, *, allow_wide: bool = False, sample: int = 4096, seed: int = 0) -> Number:
        """Return the number of a matrix or a cloud. A matrix with more columns than rows is refused unless `allow_wide`."""
        cloud = self.as_cloud(points, allow_wide=allow_wide, sample=sample, seed=seed)
        if cloud.n < self.at_least:
            return Number(np.nan, n=cloud.n, d=cloud.d, note=f"needs at least {self.at_least} points")
        with one_thread() if cloud.d <= ONE_THREAD_DIMENSIONS else contextlib.nullcontext():
            number = self._function(cloud)
        if isinstance(number, Number):  # a plugin may return a plain float, which `check_metric` reports
            number.interval_about = self.interval_about or ""
        return number


class Series(Declaration):
    """A function from a cloud to a curve: three arrays of one length, x, y and weight.

    Args:
        reads: the parts of a cloud that it cannot do without.
        title: what a figure calls it.
        on_request: whether it is computed only if it is named.
    """

    def __init__(self, function: Callable[[Any], Curve], *, reads: tuple[str, ...], title: str, on_request: bool = False) -> None:
        super().__init__(function, title=title, question=Question.CURVES, reads=reads, on_request=on_request)
        self._function = function

    def __call__(self, points: Any, *, allow_wide: bool = False) -> Curve:
        """Return the curve of a matrix or a cloud."""
        return self._function(self.as_cloud(points, allow_wide=allow_wide))


metric = decorator_for(Metric)
"""Declare the function below as the metric of its own name: `@metric(reads=("sums",), range=(0.0, 1.0), title="…")`."""

series = decorator_for(Series)
"""Declare the function below as the series of its own name: `@series(reads=("second",), title="…")`."""
