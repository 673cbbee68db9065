"""Tables and chart data as columns: nothing is lost but digits that nobody sees."""

from __future__ import annotations

import pytest

from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, make_table
from isoscope.report.charts import pack_panels
from isoscope.report.columns import pack_rows, pack_series, pack_table


def test_rows_of_a_chart_keep_their_fields_and_lose_digits():
    rows = [{"line": "a", "value": 0.123456, "layer": 3}, {"line": "b", "value": None, "n": 123456}]
    assert pack_rows(rows) == {"line": ["a", "b"], "value": [0.1235, None], "layer": [3, None], "n": [None, 123456]}


def test_heads_have_four_digits_and_all_else_every_digit():
    rows = [{"model": "m", "metric": "x", "layer": 1, "head": head, "value": 1 / 3, "n": 7} for head in (None, 2)]
    packed = pack_table(make_table([*rows, {"model": "b", "metric": "x", "value": float("inf")}], TABLE_COLUMNS))
    assert packed["model"] == {"words": ["b", "m"], "codes": [0, 1, 1]}
    assert packed["revision"] == {"words": [], "codes": [-1, -1, -1]}
    assert packed["value"] == [None, 1 / 3, 0.3333]
    assert packed["head"] == [None, None, 2]
    assert packed["n"] == [None, 7, 7]


def test_points_of_curves_have_nine_digits():
    packed = pack_series(make_table([{"model": "m", "name": "spectrum", "x": 1.0, "y": 1 / 3}], SERIES_COLUMNS))
    assert (packed["x"], packed["y"], packed["weight"]) == ([1.0], [0.333333333], [None])


def test_panels_share_a_dataset():
    data = {"d1": [{"x": 1}], "d2": [{"x": 2}]}
    packed = pack_panels([{"mark": "line", "datasets": data}, {"mark": "bar", "datasets": {"d1": data["d1"]}}, {"mark": "rule"}])
    assert packed["datasets"] == {"d1": {"x": [1]}, "d2": {"x": [2]}}
    assert [panel["datasets"] for panel in packed["panels"]] == [["d1", "d2"], ["d1"], []]
    assert packed["config"]["axis"]["gridColor"] == "currentColor"


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_not_finite_is_missing(value):
    assert pack_rows([{"x": value}]) == {"x": [None]}
