"""Rows of a table as the JSON that a chart holds."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd


def json_records(frame: pd.DataFrame, columns: list[str]) -> tuple[dict[str, Any], ...]:
    """One dictionary per row; a value that is missing or not finite is null. A tuple, because Altair copies lists at every step."""

    def json_value(x: Any) -> Any:
        if x is pd.NA or x is None:
            return None
        x = x.item() if hasattr(x, "item") else x
        return None if isinstance(x, float) and not math.isfinite(x) else x

    values = [[json_value(x) for x in frame[column].astype(object)] for column in columns]
    return tuple(dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True))


def round_digits(values: pd.Series) -> list[float]:
    """The numbers with five significant digits: nobody sees more of them, and they would make the page larger."""
    return [float(f"{x:.5g}") for x in values.astype("float64")]


def round_columns(frame: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """The frame with five significant digits in these columns."""
    return frame.assign(**{name: round_digits(frame[name]) for name in columns})
