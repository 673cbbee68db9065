"""Panels whose lines were measured on different numbers of points, for metrics that depend on that number."""

from __future__ import annotations

from typing import Any

import pandas as pd

from isoscope.core.number import THIS_N, same_n
from isoscope.drawing import INTERVAL


def title_with_n(title: str | list[str], rows: pd.DataFrame, line: str) -> str | list[str] | dict[str, Any]:
    """The title of a panel, with a second line that warns where its lines, told apart by this column, have different n.

    Only rows of a metric whose interval is about this n count: the others do not depend on n.
    """
    span = range_of_n(rows, line)
    if span is None:
        return title
    said = f"n differs ({span[0]:,} to {span[1]:,}) and this metric depends on n"
    return {"text": title, "subtitle": said}


def interval_words(rows: pd.DataFrame) -> str:
    """The expression for a row's 95 % interval in words: it adds "at this n" where the metric of these rows depends on n."""
    if not rows["interval_about"].eq(THIS_N).any():
        return INTERVAL
    return INTERVAL.replace("format(datum.high, '.4g')", "format(datum.high, '.4g') + ' at this n'")


def range_of_n(rows: pd.DataFrame, line: str) -> tuple[int, int] | None:
    """The smallest and the largest n of the lines, under the first token policy under which they differ; None where they do not."""
    own = rows[rows["interval_about"].eq(THIS_N) & rows["n"].notna() & rows["value"].notna()]
    shown_together = [own] if line == "policy" else [chosen for _, chosen in own.groupby("policy", sort=False)]
    for chosen in filter(len, shown_together):
        by_line = chosen.groupby(line, sort=False)["n"].max()
        low, high = int(by_line.min()), int(by_line.max())
        if not same_n(low, high):
            return low, high
    return None
