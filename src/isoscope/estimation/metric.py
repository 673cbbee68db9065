"""Metrics and series: functions of a cloud, declared under their own name with the parts of the cloud that they read."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable
from enum import StrEnum
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

import numpy as np

from isoscope.core.errors import IsoscopeError
from isoscope.core.number import Number
from isoscope.estimation.cloud import Cloud
from isoscope.estimation.matrix_cloud import cloud_of
from isoscope.estimation.site_clouds import ATTENTION_PARTS, AttentionCloud
from isoscope.statistics.kernel import one_thread

AnyCloud = Cloud | AttentionCloud
"""The input of a metric or a series: points, or rows of attention. The declaration's `subject` says which."""
Subject = Literal["points", "attention", "stack"]
P = ParamSpec("P")
D = TypeVar("D", bound="Declaration")
ONE_THREAD_DIMENSIONS = 2048
"""Up to this dimension a matrix is decomposed on one thread: more threads cost more than they give."""
OVER_D = "/d"
"""Behind the name of a metric: the metric divided by the dimension, as in `effective_rank/d`."""
Curve = tuple[np.ndarray, np.ndarray, np.ndarray]
"""x, y and weight of a series."""


def split_over_d(text: str) -> tuple[str, bool]:
    """The name of a metric, and whether it is to be divided by the dimension.

    >>> split_over_d("effective_rank/d"), split_over_d("mean_cosine")
    (('effective_rank', True), ('mean_cosine', False))
    """
    name, slash, divisor = text.partition("/")
    if slash and divisor != OVER_D[1:]:
        raise IsoscopeError(f"A metric may be divided by its dimension, as {name}{OVER_D}; got {text!r}.")
    return name, bool(slash)


class Question(StrEnum):
    """The question that a number answers. The index of metrics has one section per question, in this order."""

    DIRECTIONS = "Do vectors point the same way?"
    COMMON_MEAN = "How much of that is a common mean?"
    TOP_DIRECTION = "Does one direction dominate?"
    DIMENSIONS_IN_USE = "How many dimensions are in use?"
    INTRINSIC_DIMENSION = "How many dimensions do neighbours spread in?"
    LOCAL_GEOMETRY = "Is it isotropic locally? Are there clusters and hubs?"
    COORDINATES = "Do a few coordinates carry it?"
    LAYERS = "What shape is the profile across layers?"
    ATTENTION_SHARPNESS = "How sharp is attention?"
    ATTENTION_TARGET = "Where does attention go?"
    QUERIES_AND_KEYS = "Do queries and keys drift together?"
    CURVES = "Curves"
    OTHER = "Other numbers"


class Declaration:
    """A function declared as a metric, a series or a profile.

    Attributes:
        name: the key in the registry and in the tables; the name of the function.
        title: what a figure calls it.
        question: the section of the index that lists it.
        reads: the parts of a cloud that it cannot do without (`PARTS` for points, `ATTENTION_PARTS` for attention).
        wants: the parts that it uses if they were kept, for an interval.
        at_least: the smallest number of points that it is defined for.
        on_request: whether it is computed only if it is named, because it takes seconds per layer.
    """

    def __init__(
        self,
        function: Callable[[Any], Any],
        *,
        title: str,
        question: Question,
        reads: tuple[str, ...],
        wants: tuple[str, ...] = (),
        at_least: int = 2,
        on_request: bool = False,
    ) -> None:
        self.name: str = function.__name__
        self.title, self.question, self.reads, self.wants = title, question, reads, wants
        self.at_least, self.on_request = at_least, on_request
        self.__doc__ = inspect.cleandoc(function.__doc__ or "")
        self.__name__, self.__module__, self.__wrapped__ = function.__name__, function.__module__, function

    @property
    def subject(self) -> Subject:
        """The kind of thing that it measures: `points`, `attention` or a whole `stack`."""
        return "attention" if set(self.reads) & set(ATTENTION_PARTS) else "points"

    @property
    def summary(self) -> str:
        """The meaning of the number in one sentence: the first paragraph of its docstring."""
        return (self.__doc__ or "").split("\n\n")[0].replace("\n", " ")

    @property
    def position(self) -> tuple[str, int]:
        """The module and the line of the declaration: the order of the index within a question."""
        return self.__module__, self.__wrapped__.__code__.co_firstlineno

    def available(self, cloud: AnyCloud) -> bool:
        """Whether the cloud has enough points, and every part that this declaration reads."""
        return cloud.n >= self.at_least and all(cloud.has(part) for part in self.reads)

    def as_cloud(self, points: Any, *, allow_wide: bool, sample: int = 4096, seed: int = 0) -> AnyCloud:
        """Return a matrix as the cloud that this declaration needs, and a cloud as it is.

        Raises:
            IsoscopeError: points were given and attention is needed, or the reverse; or a part of the attention was not kept.
        """
        needs_attention = self.subject == "attention"
        if needs_attention != isinstance(points, AttentionCloud):
            needed, given = ("rows of attention", "points") if needs_attention else ("points", "rows of attention")
            raise IsoscopeError(
                f"{self.name} is a number of {needed}, and it was given {given}; `isoscope list metrics` says which is which."
            )
        if not isinstance(points, AttentionCloud):
            return cloud_of(points, self.reads + self.wants, allow_wide=allow_wide, sample=sample, seed=seed)
        missing = [part for part in self.reads if not points.has(part)]
        if missing:
            raise IsoscopeError(f"{self.name} needs {missing[0].replace('_', ' and ')}, which were not kept of this attention.")
        return points

    def __repr__(self) -> str:
        return f"<{type(self).__name__.lower()} {self.name}>"


def decorator_for(kind: Callable[Concatenate[Callable[[Any], Any], P], D]) -> Callable[P, Callable[[Callable[[Any], Any]], D]]:
    """Return the decorator that declares the function below it as an object of this class; it takes the arguments of the class."""

    def decorator(*args: P.args, **kwargs: P.kwargs) -> Callable[[Callable[[Any], Any]], D]:
        return lambda function: kind(function, *args, **kwargs)

    # `help(metric)` shows the arguments of `Metric` and what they mean, all but the function, which comes with the decoration.
    _, *arguments = inspect.signature(kind).parameters.values()
    decorator.__doc__, decorator.__signature__ = kind.__doc__, inspect.Signature(arguments)  # type: ignore[attr-defined]
    return decorator


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
        # On small matrices threads mostly wait for each other, and for much longer if another process holds a core.
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
