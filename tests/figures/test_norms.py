"""The heat map of norms."""

from __future__ import annotations

from isoscope.figures import figures
from tests.figures.specs import list_rows


def test_bins_of_no_width_are_visible(tables):
    table, series = tables
    one = series[series["name"] == "norms"].head(1).assign(x=5.0, y=1.0, weight=0.0)
    row = next(r for r in list_rows(figures["norms"].draw(table, one).to_dict()) if "bottom" in r)
    assert row["bottom"] < 5 < row["top"]
