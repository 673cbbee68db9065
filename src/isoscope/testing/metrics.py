"""Contract checks for metrics, series and profiles."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from isoscope.core.number import POPULATION, THIS_N, Number
from isoscope.estimation.cloud import PARTS
from isoscope.estimation.matrix_cloud import cloud_of
from isoscope.estimation.metric import AnyCloud, Metric, Series
from isoscope.estimation.profile import FEWEST_BLOCKS, Profile
from isoscope.estimation.site_clouds import ATTENTION_PARTS, AttentionCloud
from isoscope.testing.clouds import D, attention_cloud, random_attention, random_clouds, random_stack
from isoscope.testing.extensions import require


def _clouds_for(entry: Metric | Series) -> Iterator[tuple[str, AnyCloud, AnyCloud]]:
    """Clouds of the kind that an entry measures, by name, and each with its rows in another order."""
    rng = np.random.default_rng(1)
    if entry.subject == "attention":
        for kind, (query, key) in random_attention().items():
            order = rng.permutation(len(query))
            yield kind, attention_cloud(query, key), attention_cloud(query[order], key[order])
    else:
        for kind, matrix in random_clouds().items():
            yield kind, cloud_of(matrix), cloud_of(rng.permutation(matrix))


def check_metric(metric: Metric) -> None:
    """Check a metric's contract.

    It declares a title, a range, parts of a cloud that exist, what its interval is about if it has one, and a docstring that begins with
    one sentence and states its range and its null. On five random clouds (of points or, if it reads that, of rows of attention) it gives a
    `Number` within its range (or NaN with a note), with its interval around it; the same when called again and, to 1e-9, with the rows in
    another order; it warns of nothing and changes nothing in the cloud.
    """
    require(isinstance(metric, Metric), f"{metric!r} is not a metric: declare it with @metric.")
    name = metric.name
    _check_declaration(metric)
    _check_range(metric)
    require(metric.at_least >= 1, f"{name}: at_least must be 1 or more; it is {metric.at_least}.")
    known, about = (None, POPULATION, THIS_N), metric.interval_about
    require(about in known, f"{name}: interval_about must be one of {', '.join(map(str, known))}; it is {about!r}.")
    has_value, has_interval = False, False
    for kind, cloud, other in _clouds_for(metric):
        where = f"{name} of the cloud {kind!r}"
        before = _copy_arrays(cloud)
        value = _call_twice(metric, cloud, where)
        require(_are_equal(before, _copy_arrays(cloud)), f"{where} changed the cloud.")
        _check_number(metric, value, where)
        has_value, has_interval = has_value or not math.isnan(value), has_interval or not math.isnan(value.low)
        # Sums in another order differ in their last digits; anything more depends on the order.
        shuffled = metric(other)
        require(_are_close(value, shuffled), f"{where} depends on the order of rows: {float(value)!r} and {float(shuffled)!r}.")
    if about is None:
        require(not has_interval, f"{name} has an interval; declare what it is about: interval_about=POPULATION or THIS_N.")
    require(has_interval or about is None or not has_value, f"{name} declares what its interval is about, and it has none.")


def check_series(series: Series) -> None:
    """Check a series' contract: declared as a metric is; three arrays of one length, finite, the same when called again."""
    require(isinstance(series, Series), f"{series!r} is not a series: declare it with @series.")
    _check_declaration(series)
    for kind, cloud, _ in _clouds_for(series):
        where = f"{series.name} of the cloud {kind!r}"
        before = _copy_arrays(cloud)
        first, second = series(cloud), series(cloud)
        require(len(first) == 3, f"{where} gives {len(first)} arrays; x, y and weight are expected.")
        shapes = [np.shape(column) for column in first]
        alike = len(set(shapes)) == 1 and len(shapes[0]) == 1
        require(alike, f"{where} gives arrays of the shapes {shapes}; three of one length are expected.")
        require(all(bool(np.isfinite(column).all()) for column in first), f"{where} holds NaN or infinity.")
        require(all(np.array_equal(a, b) for a, b in zip(first, second, strict=True)), f"{where} differs when called again.")
        require(_are_equal(before, _copy_arrays(cloud)), f"{where} changed the cloud.")


def check_profile(profile: Profile) -> None:
    """Check a profile's contract.

    It declares what a metric declares. On stacks of six and nine blocks it gives a `Number` within its range with its interval around
    it, or NaN with a note; the same when called again, and whatever enters the first block; it warns of nothing and changes no cloud. A
    stack of fewer than six blocks, or one with a gap, gives NaN with a note. Its contrasts between blocks are linear.
    """
    require(isinstance(profile, Profile), f"{profile!r} is not a profile: declare it with @profile.")
    name = profile.name
    _check_declaration(profile)
    _check_range(profile)
    for blocks in (FEWEST_BLOCKS, FEWEST_BLOCKS + 3):
        where = f"{name} of {blocks} blocks"
        stack = random_stack(blocks)
        before = {layer: _copy_arrays(cloud) for layer, cloud in stack.items()}
        value = _call_twice(profile, stack, where)
        for layer, cloud in stack.items():
            require(_are_equal(before[layer], _copy_arrays(cloud)), f"{where} changed the cloud of layer {layer}.")
        _check_number(profile, value, where)
        require(not math.isnan(value.low), f"{where} has no interval.")
        other_input = profile(stack | {0: cloud_of(random_clouds()["dominated"])})
        require(float(other_input) == float(value), f"{where} depends on layer 0, which no block has made.")
        with_gap = profile({layer: stack[layer] for layer in stack if layer != 3})
        require(math.isnan(with_gap), f"{where} is {float(with_gap)} without block 3; NaN is expected.")
        # The interval of a profile is made by applying its contrasts to the deviations of groups, which is right for linear ones only.
        a, b = np.random.default_rng(blocks).random((2, blocks))
        combined = 2 * profile.contrasts(a) - profile.contrasts(b)
        linear = np.allclose(profile.contrasts(2 * a - b), combined, rtol=0, atol=1e-9)
        require(linear, f"{where} has contrasts that are not linear in the numbers of the blocks; its interval needs linear ones.")
    few = profile(random_stack(FEWEST_BLOCKS - 1))
    require(math.isnan(few) and bool(few.note), f"{name} of {FEWEST_BLOCKS - 1} blocks is {float(few)}; NaN with a note is expected.")


def _check_range(entry: Metric | Profile) -> None:
    low, high = entry.range
    name, doc = entry.name, (entry.__doc__ or "").lower()
    require(low < high, f"{name}: the range {entry.range} is empty.")
    require("range" in doc, f"{name}: the docstring does not state the range.")
    require("null" in doc, f"{name}: the docstring does not state the null, or that there is none.")


def _check_declaration(entry: Metric | Series | Profile) -> None:
    name, summary = entry.name, entry.summary
    require(bool(summary), f"{name}: there is no docstring.")
    require(summary.endswith(".") and ". " not in summary, f"{name}: the docstring must begin with one sentence; it begins {summary!r}.")
    require(bool(entry.title.strip()), f"{name}: the title is empty.")
    parts = ATTENTION_PARTS if entry.subject == "attention" else PARTS
    unknown = set(entry.reads) - set(parts)
    require(bool(entry.reads) and not unknown, f"{name}: reads must name parts of a cloud ({', '.join(parts)}); it names {entry.reads}.")


def _call_twice(metric: Callable[[Any], Number], cloud: Any, where: str) -> Number:
    """The number of a cloud, which must be the same twice and come without a warning."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        first, second = metric(cloud), metric(cloud)
    require(not caught, f"{where} warns: {caught[0].message if caught else ''}")
    require(isinstance(first, Number), f"{where} is a {type(first).__name__}; a Number is expected.")
    before, after = ([float(number), number.low, number.high, number.null, number.null_sd] for number in (first, second))
    require(bool(np.array_equal(before, after, equal_nan=True)), f"{where} differs when called again: {before} and {after}.")
    return first


def _check_number(metric: Metric | Profile, value: Number, where: str) -> None:
    require(value.n >= 1 and value.d == D, f"{where} says n = {value.n} and d = {value.d}; d is {D}.")
    if math.isnan(value):
        require(bool(value.note), f"{where} is NaN and its note does not say why.")
        return
    low, high = metric.range
    require(low <= value <= high, f"{where} is {float(value)}, outside its range {metric.range}.")
    if not math.isnan(value.low):
        require(low <= value.low <= value.high <= high, f"{where} has the interval {value.low} to {value.high}, outside {metric.range}.")
        require(value.low <= value <= value.high, f"{where} is {float(value)}, outside its interval {value.low} to {value.high}.")


def _are_close(a: float, b: float) -> bool:
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)


def _copy_arrays(cloud: AnyCloud) -> dict[str, np.ndarray]:
    state: dict[str, np.ndarray] = {}
    if isinstance(cloud, AttentionCloud):
        arrays = {name: value.copy() for name, value in vars(cloud).items() if isinstance(value, np.ndarray)}
        sides = {"queries": _copy_arrays(cloud.queries), "keys": _copy_arrays(cloud.keys)} if cloud.pair is not None else {}
        return arrays | {f"{side}.{key}": value for side, part in sides.items() for key, value in part.items()}
    for name, part in (("moments", cloud.moments), ("groups", cloud.groups), ("sample", cloud.sample)):
        if part is not None:
            state |= {f"{name}.{key}": value.copy() for key, value in part.state().items()}
    return state


def _are_equal(before: dict[str, np.ndarray], after: dict[str, np.ndarray]) -> bool:
    return before.keys() == after.keys() and all(np.array_equal(value, after[key]) for key, value in before.items())
