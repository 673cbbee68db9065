"""Contract checks for those who add a metric or a series: what every one of isoscope's own is held to.

    from isoscope.metrics import registry
    from isoscope.testing import check_metric

    def test_my_metric():
        check_metric(registry["my_metric"])

A check returns nothing if the contract holds, and raises `AssertionError` with a sentence that says what does not.
"""

from __future__ import annotations

import inspect
import math
import warnings
from pathlib import Path

import numpy as np

from isoscope.core.number import Number
from isoscope.statistics.cloud import PARTS, Cloud
from isoscope.statistics.matrix import cloud_of
from isoscope.statistics.metric import Metric, Series

N, D = 240, 24
"""The size of the clouds that a check measures."""


def random_clouds(seed: int = 0) -> dict[str, np.ndarray]:
    """Five matrices (n, d) of different shape, by name: isotropic, drifting, dominated by one direction, heavy norms, duplicates.

    >>> sorted(random_clouds()), random_clouds()["isotropic"].shape
    (['dominated', 'drifting', 'duplicates', 'heavy norms', 'isotropic'], (240, 24))
    """
    rng = np.random.default_rng(seed)
    base = rng.standard_normal((N, D))
    repeated = rng.standard_normal((N, D)) + 0.5
    repeated[: N // 5] = repeated[N // 5 : 2 * (N // 5)]
    return {
        "isotropic": base,
        "drifting": rng.standard_normal((N, D)) + 100,
        "dominated": rng.standard_normal((N, D)) * np.where(np.arange(D) == 3, 50.0, 1.0),
        "heavy norms": rng.standard_normal((N, D)) * rng.lognormal(0, 1.5, (N, 1)) + 0.2,
        "duplicates": repeated,
    }


def check_metric(metric: Metric) -> None:
    """Check a metric's contract.

    It declares a title, a range, parts of a cloud that exist, and a docstring that begins with one sentence and states its range and its
    null; its file and its function share their name. On five random clouds it gives a `Number` within its range (or NaN with a
    note), with its interval around it; the same when called again and, to 1e-9, with the rows in another order; it warns of
    nothing and changes nothing in the cloud.
    """
    _require(isinstance(metric, Metric), f"{metric!r} is not a metric: declare it with @metric.")
    name = metric.name
    _check_declaration(metric)
    low, high = metric.range
    _require(low < high, f"{name}: the range {metric.range} is empty.")
    _require("range" in (metric.__doc__ or "").lower(), f"{name}: the docstring does not state the range.")
    _require("null" in (metric.__doc__ or "").lower(), f"{name}: the docstring does not state the null, or that there is none.")
    _require(metric.at_least >= 1, f"{name}: at_least must be 1 or more; it is {metric.at_least}.")
    for kind, matrix in random_clouds().items():
        cloud = cloud_of(matrix)
        where = f"{name} of the cloud {kind!r}"
        value = _called_twice(metric, cloud, where)
        _check_number(metric, value, where)
        shuffled = metric(cloud_of(np.random.default_rng(1).permutation(matrix)))
        _require(_near(value, shuffled), f"{where} depends on the order of rows: {float(value)!r} and {float(shuffled)!r}.")


def check_series(series: Series) -> None:
    """Check a series' contract: declared as a metric is; three arrays of one length, finite, the same when called again."""
    _require(isinstance(series, Series), f"{series!r} is not a series: declare it with @series.")
    _check_declaration(series)
    for kind, matrix in random_clouds().items():
        cloud = cloud_of(matrix)
        where = f"{series.name} of the cloud {kind!r}"
        before = _state(cloud)
        first, second = series(cloud), series(cloud)
        _require(len(first) == 3, f"{where} gives {len(first)} arrays; x, y and weight are expected.")
        shapes = [np.shape(column) for column in first]
        alike = len(set(shapes)) == 1 and len(shapes[0]) == 1
        _require(alike, f"{where} gives arrays of the shapes {shapes}; three of one length are expected.")
        _require(all(bool(np.isfinite(column).all()) for column in first), f"{where} holds NaN or infinity.")
        _require(all(np.array_equal(a, b) for a, b in zip(first, second, strict=True)), f"{where} differs when called again.")
        _require(_same(before, _state(cloud)), f"{where} changed the cloud.")


def _require(holds: bool, sentence: str) -> None:
    if not holds:
        raise AssertionError(sentence)


def _check_declaration(entry: Metric | Series) -> None:
    name, summary = entry.name, entry.summary
    _require(bool(summary), f"{name}: there is no docstring.")
    _require(summary.endswith(".") and ". " not in summary, f"{name}: the docstring must begin with one sentence; it begins {summary!r}.")
    _require(bool(entry.title.strip()), f"{name}: the title is empty.")
    unknown = set(entry.reads) - set(PARTS)
    _require(bool(entry.reads) and not unknown, f"{name}: reads must name parts of a cloud ({', '.join(PARTS)}); it names {entry.reads}.")
    file = inspect.getsourcefile(entry.__wrapped__)
    _require(Path(file or "").stem == name, f"{name}: the file is called {Path(file or '').name}; it must be {name}.py.")
    _require(entry.__module__.rpartition(".")[2] == name, f"{name}: the module is called {entry.__module__}.")


def _called_twice(metric: Metric, cloud: Cloud, where: str) -> Number:
    before = _state(cloud)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        first, second = metric(cloud), metric(cloud)
    _require(not said, f"{where} warns: {said[0].message if said else ''}")
    _require(isinstance(first, Number), f"{where} is a {type(first).__name__}; a Number is expected.")
    one, two = ([float(x), x.low, x.high, x.null, x.null_sd] for x in (first, second))
    _require(bool(np.array_equal(one, two, equal_nan=True)), f"{where} differs when called again: {one} and {two}.")
    _require(_same(before, _state(cloud)), f"{where} changed the cloud.")
    return first


def _check_number(metric: Metric, value: Number, where: str) -> None:
    _require(value.n >= 1 and value.d == D, f"{where} says n = {value.n} and d = {value.d}; d is {D}.")
    if math.isnan(value):
        _require(bool(value.note), f"{where} is NaN and its note does not say why.")
        return
    low, high = metric.range
    _require(low <= value <= high, f"{where} is {float(value)}, outside its range {metric.range}.")
    if not math.isnan(value.low):
        _require(low <= value.low <= value.high <= high, f"{where} has the interval {value.low} to {value.high}, outside {metric.range}.")
        _require(value.low <= value <= value.high, f"{where} is {float(value)}, outside its interval {value.low} to {value.high}.")


def _near(a: float, b: float) -> bool:
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)


def _state(cloud: Cloud) -> dict[str, np.ndarray]:
    """All that a cloud holds, copied."""
    state: dict[str, np.ndarray] = {}
    for name, part in (("moments", cloud.moments), ("groups", cloud.groups), ("sample", cloud.sample)):
        if part is not None:
            state |= {f"{name}.{key}": value.copy() for key, value in part.state().items()}
    return state


def _same(before: dict[str, np.ndarray], after: dict[str, np.ndarray]) -> bool:
    return before.keys() == after.keys() and all(np.array_equal(value, after[key]) for key, value in before.items())
