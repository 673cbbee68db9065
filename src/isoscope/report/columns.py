"""Tables and the data of charts as columns, which pack to a quarter of the size of rows."""

from __future__ import annotations

from math import inf
from typing import Any

import pandas as pd

from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS

DRAWN_DIGITS = 4
"""Significant digits of numbers in charts, and of single heads in the table: nobody sees more, and they would be most of the page."""
POINT_DIGITS = 9
"""Significant digits of the points of curves: they give back every float32."""


def round_to(value: Any, digits: int = DRAWN_DIGITS) -> Any:
    """A number with this many significant digits; whole numbers, and anything else, as they are; None if it is not finite.

    >>> [round_to(x) for x in (0.123456, 123456.0, -1.00004e-9, float("nan"), "0.123456")]
    [0.1235, 123456, -1e-09, None, '0.123456']
    """
    if not isinstance(value, float):
        return value
    if value.is_integer() and abs(value) < 1e15:
        return int(value)
    return float(f"{value:.{digits}g}") if abs(value) < inf else None


def pack_rows(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """The rows of a chart by column, with numbers as they are drawn."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [round_to(row.get(name)) for row in rows] for name in names}


def pack_table(table: pd.DataFrame) -> dict[str, Any]:
    """The table by column with all digits; rows of single heads with `DRAWN_DIGITS`. Texts are numbers into a list of words."""
    # Sorted, rows that resemble each other lie side by side, which packs them closer.
    table = table.sort_values(["model", "metric"], kind="stable")
    return _pack_columns(table, TABLE_COLUMNS, table["head"].notna().tolist())


def pack_series(series: pd.DataFrame) -> dict[str, Any]:
    """The points of curves by column, with `POINT_DIGITS`."""
    return _pack_columns(series, SERIES_COLUMNS, [False] * len(series), POINT_DIGITS)


def _pack_columns(frame: pd.DataFrame, types: dict[str, str], of_heads: list[bool], digits: int = 17) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    for name, kind in types.items():
        if kind == "string":
            codes, words = pd.factorize(frame[name])
            columns[name] = {"words": [str(word) for word in words], "codes": codes.tolist()}
        elif kind == "Int64":
            columns[name] = frame[name].astype(object).where(frame[name].notna(), None).tolist()
        else:
            pairs = zip(frame[name].tolist(), of_heads, strict=True)
            columns[name] = [None if not -inf < x < inf else float(f"{x:.{DRAWN_DIGITS if short else digits}g}") for x, short in pairs]
    return columns
