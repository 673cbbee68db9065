"""Tooltips: the fields of a mark, with titles and number formats that all charts share."""

from __future__ import annotations

from typing import Any

import pandas as pd

from isoscope.charts import lazy_altair as alt
from isoscope.core.number import THIS_N

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
