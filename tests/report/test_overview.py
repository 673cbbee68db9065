"""The first screen: its numbers are the table's, and its curves have the shape of theirs."""

from __future__ import annotations

import pandas as pd
import pytest

from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, make_table
from isoscope.report.line import all_lines
from isoscope.report.overview import HEIGHT, WIDTH, Row, overview

NONE = make_table([], SERIES_COLUMNS)


def made(values: dict[str, dict[str, list[float]]], kind: str = "hidden") -> pd.DataFrame:
    """Rows by model and metric, one a layer."""
    rows = [
        {"model": model, "stack": "encoder", "kind": kind, "layer": layer, "policy": "all", "metric": metric, "value": x, "n": 900, "d": 8}
        for model, metrics in values.items()
        for metric, numbers in metrics.items()
        for layer, x in enumerate(numbers)
    ]
    return make_table([dict(row) for row in rows], TABLE_COLUMNS)


def heads(values: dict[int, list[float]], metric: str) -> pd.DataFrame:
    where = {"model": "a", "stack": "encoder", "kind": "attention", "policy": "all", "metric": metric}
    return make_table(
        [where | {"layer": layer, "head": head, "value": x} for layer, each in values.items() for head, x in enumerate(each)], TABLE_COLUMNS
    )


def rows_of(table: pd.DataFrame) -> tuple[list[str], list[Row]]:
    columns, rows = overview(all_lines(table, NONE))
    return [column.title for column in columns], rows


def points(row: Row, at: int) -> list[tuple[float, float]]:
    spark = row.cells[at].spark
    assert spark is not None
    return [tuple(map(float, pair.split(","))) for pair in spark.points.split()]


def test_each_number_is_that_of_its_own_extreme_layer():
    table = made({"a": {"between_cosine": [0.1, 0.6, 0.3], "drift_ratio": [0.2, 0.1, 0.5], "effective_rank": [6.0, 2.0, 4.0]}})
    titles, (row,) = rows_of(table)
    assert titles == ["Cosine", "Drift ratio", "Effective rank"]
    assert [(cell.text, cell.below) for cell in row.cells] == [("0.600", "layer 1"), ("0.500", "layer 2"), ("25 %", "layer 1: 2.00")]


def test_an_interval_stands_below_its_number():
    table = made({"a": {"between_cosine": [0.1, 0.6]}}).assign(low=[0.05, 0.55], high=[0.15, 0.65])
    assert rows_of(table)[1][0].cells[0].below == "layer 1: 0.550 to 0.650"


def test_curves_of_a_column_share_a_scale_and_stay_inside():
    _, (low, high) = rows_of(made({"a": {"between_cosine": [0.0, 0.25, 0.5]}, "b": {"between_cosine": [0.0, 1.0, 0.5]}}))
    one, other = points(low, 0), points(high, 0)
    assert one[2][1] == other[2][1], "0.5 is as high in both"
    assert other[1][1] < other[2][1] < other[0][1], "what is greater stands higher, and pixels count downwards"
    assert [x for x, _ in one] == [x for x, _ in other]
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in one + other)
    assert high.cells[0].spark.dot == other[1]


def test_heads_are_averaged_and_what_a_model_lacks_is_empty():
    table = pd.concat(
        [made({"a": {"mean_cosine": [0.1, 0.2]}, "b": {"mean_cosine": [0.1, 0.2]}}), heads({1: [0.2, 0.4], 2: [0.6, 0.8]}, "sink_mass")]
    )
    titles, (first, second) = rows_of(table.reset_index(drop=True))
    assert titles == ["Cosine", "Sinks"]
    assert first.cells[1].text == "0.500"
    ys = [y for _, y in points(first, 1)]
    assert len(ys) == 2
    assert ys[1] < ys[0]
    assert (second.cells[1].text, second.cells[1].spark) == ("", None)


@pytest.mark.parametrize("numbers", [[0.4], [0.0, 0.0, 0.0], [-0.2, -0.1]])
def test_odd_curves_are_no_trouble(numbers):
    (row,) = rows_of(made({"a": {"between_cosine": numbers}}))[1]
    if len(numbers) == 1:
        assert row.cells[0].spark is None
    else:
        assert all(0 <= y <= HEIGHT for _, y in points(row, 0))


def test_a_model_without_a_cosine_has_no_row():
    assert rows_of(made({"a": {"mean_norm": [1.0, 2.0]}})) == ([], [])
    assert overview([]) == ([], [])


def test_models_of_different_n_share_no_scale_where_the_number_depends_on_n():
    table = made(
        {"a": {"top_share": [0.0, 0.25], "between_cosine": [0.0, 0.5]}, "b": {"top_share": [0.0, 1.0], "between_cosine": [0.0, 1.0]}}
    )
    about = table["metric"].map({"top_share": "this n", "between_cosine": "population"})
    for n, hint, alike in ((900, "greatest", False), (4000, "greatest; n differs, do not compare rows", True)):
        given = table.assign(interval_about=about, n=table["n"].where(table["model"].eq("a"), n))
        columns, (low, high) = overview(all_lines(given, NONE))
        assert [column.hint for column in columns] == ["greatest, between items", hint]
        assert (points(low, 1) == points(high, 1)) == alike, "each curve fills its own scale"
        assert points(low, 0) != points(high, 0)
