"""Axes of layers, depth, training steps and powers of ten; and tooltips."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from isoscope.charts import lazy_altair as alt
from isoscope.core.number import THIS_N

STEP_TICKS = 7
"""About this many steps have a label."""


def layer_axis(field: str = "layer") -> Any:
    """The layers from left to right; labels are whole numbers, however few layers there are."""
    return alt.X(f"{field}:Q", title="layer", axis=alt.Axis(format="d", tickMinStep=1), scale=alt.Scale(nice=False, padding=8))


def depth_axis() -> Any:
    """The depth relative to the whole network, from 0 to 1."""
    return alt.X("depth:Q", title="relative depth", scale=alt.Scale(domain=[0, 1], nice=False, padding=8))


def step_axis(steps: Iterable[int], field: str = "step", title: str = "training step") -> dict[str, Any]:
    """Field, title, scale and axis of training steps."""
    known = [int(step) for step in steps]
    # Steps are spaced by powers and begin at 0, which a logarithmic axis cannot show. A symlog axis is linear up to the first step after 0
    # (its constant) and logarithmic beyond.
    constant = min((step for step in known if step > 0), default=1)
    scale = alt.Scale(type="symlog", constant=constant, nice=False, padding=8, domain=[min(known), max(*known, min(known) + 1)])
    return {"shorthand": f"{field}:Q", "title": title, "scale": scale, "axis": alt.Axis(values=step_ticks(known), format=".3~s")}


def step_ticks(steps: Iterable[int]) -> list[int]:
    """The steps that the axis labels: the first, the last, and those between that are far enough apart on a symlog axis.

    >>> step_ticks([0, 1, 2, 3, 4, 8, 16, 32, 64, 128, 256, 512])
    [0, 2, 8, 32, 128, 512]
    """
    known = sorted({int(step) for step in steps})
    constant = next((step for step in known if step > 0), 1)

    def are_apart(step: int, other: int) -> bool:
        return abs(math.log1p(step / constant) - math.log1p(other / constant)) > math.log1p(known[-1] / constant) / STEP_TICKS

    labelled: list[int] = []
    for step in reversed(known):
        if not labelled or are_apart(labelled[-1], step):
            labelled.append(step)
    return [known[0], *sorted(step for step in labelled if are_apart(step, known[0]))]


def decade_ticks(values: pd.Series) -> list[float]:
    """The powers of ten that the values span, as ticks of a logarithmic axis.

    >>> decade_ticks(pd.Series([0.03, 20.0]))
    [0.01, 0.1, 1.0, 10.0, 100.0]
    """
    positive = values[np.isfinite(values.astype("float64")) & (values > 0)]
    if positive.empty:
        return [1.0]
    low, high = math.floor(math.log10(positive.min())), math.ceil(math.log10(positive.max()))
    return [10.0**power for power in range(low, high + 1)]


INTERVAL = "isValid(datum.low) ? format(datum.low, '.4g') + ' to ' + format(datum.high, '.4g') : 'none'"
"""The expression for a row's 95 % interval in words, which the reader's browser evaluates."""
TITLES = {"line": "model", "policy": "tokens", "interval": "95 % interval"}
FORMATS = {"n:Q": ",", "d:Q": ",", "step:Q": ","}


def tooltips(*fields: str, **titles: str) -> list[Any]:
    """Tooltips of fields, each given as `"value:Q .4g"`: name, type and number format. `titles` gives other titles by name."""
    encodings = []
    for field in fields:
        shorthand, _, number_format = field.partition(" ")
        name = shorthand.partition(":")[0]
        options = {"title": titles.get(name) or TITLES.get(name), "format": number_format or FORMATS.get(shorthand)}
        encodings.append(alt.Tooltip(shorthand, **{key: option for key, option in options.items() if option}))
    return encodings


def interval_expression(rows: pd.DataFrame) -> str:
    """The expression for a row's 95 % interval in words; it adds "at this n" if the metric of these rows depends on n."""
    if not rows["interval_about"].eq(THIS_N).any():
        return INTERVAL
    return INTERVAL.replace("format(datum.high, '.4g')", "format(datum.high, '.4g') + ' at this n'")
