"""What a drawn chart holds: its panels, their titles and their rows."""

from __future__ import annotations

import pandas as pd

from isoscope.core.table import SERIES_COLUMNS, make_table
from isoscope.figures import figures

NO_SERIES = make_table([], SERIES_COLUMNS)


def list_panels(spec: dict) -> list[dict]:
    return spec.get("concat") or [spec]


def titles_of(spec: dict) -> list:
    return [panel["title"] for panel in list_panels(spec)]


def list_rows(spec: dict) -> list[dict]:
    return [row for rows in spec["datasets"].values() for row in rows]


def rows_of(spec: dict) -> pd.DataFrame:
    return pd.DataFrame(list_rows(spec))


def rows_of_panel(spec: dict, panel: dict, *columns: str) -> pd.DataFrame:
    """The rows of a panel's data set that has these columns."""
    names = [layer["data"]["name"] for layer in [panel, *panel.get("layer", [])] if "data" in layer]
    frames = (pd.DataFrame(spec["datasets"][name]) for name in names)
    return next(frame for frame in frames if set(columns) <= set(frame))


def draw_spec(name: str, table: pd.DataFrame) -> dict:
    return figures[name].draw(table, NO_SERIES).to_dict(validate=False)
