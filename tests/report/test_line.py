"""The rows of one model: which are looked up, and in which order."""

import pandas as pd
import pytest

from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, make_table
from isoscope.report.line import all_lines, greatest, interval_of, least, site_of

WHO = {"model": "net", "stack": "encoder", "modality": "text", "family": "encoder", "policy": "all", "n": 900, "d": 8}


def line_of(*rows):
    (line,) = all_lines(make_table([WHO | {"metric": "mean_cosine"} | row for row in rows], TABLE_COLUMNS), make_table([], SERIES_COLUMNS))
    return line


LINE = line_of(
    {"kind": "final", "layer": 2, "value": 0.3},
    {"kind": "hidden", "layer": 2, "value": 0.2},
    {"kind": "hidden", "layer": 0, "value": 0.9},
    {"kind": "hidden", "layer": 1, "value": None},
    {"kind": "query", "layer": 1, "head": 0, "value": 0.99},
    {"kind": "hidden", "layer": 2, "value": 0.7, "policy": "body"},
)


def test_rows_come_by_depth_with_the_final_norm_last():
    assert LINE.rows("mean_cosine")["value"].tolist() == [0.9, 0.2, 0.3]
    assert LINE.rows("mean_cosine", "body")["value"].tolist() == [0.7]
    assert LINE.rows("two_nn").empty


def test_the_peak_is_that_of_states_and_of_the_cosine_between_items_if_it_is_known():
    assert (LINE.cosine, LINE.peak()["value"]) == ("mean_cosine", 0.9)
    both = line_of({"kind": "hidden", "layer": 0, "value": 0.9}, {"kind": "hidden", "layer": 1, "value": 0.4, "metric": "between_cosine"})
    assert (both.cosine, both.peak()["value"]) == ("between_cosine", 0.4)
    assert line_of({"kind": "hidden", "layer": 0, "value": None}).peak() is None


def test_a_row_is_found_at_the_site_of_another():
    final = LINE.rows("mean_cosine").iloc[2]
    assert LINE.at("mean_cosine", final)["value"] == 0.3
    assert LINE.at("mean_cosine", final, "body") is None, "layer 2 of the body is no final state"
    matrix = line_of({"kind": "input_embedding", "value": 0.25})
    assert matrix.at("mean_cosine", matrix.peak())["value"] == 0.25
    assert site_of(final) == "the state after the final norm"


@pytest.mark.parametrize(
    ("about", "low", "words"),
    [
        ("population", 0.1, " (95 % interval 0.100 to 0.300)"),
        ("this n", 0.1, " (95 % interval 0.100 to 0.300 at n = 1,200)"),
        ("this n", None, ""),
    ],
)
def test_an_interval_names_n_if_the_number_depends_on_it(about, low, words):
    row = {"value": 0.2, "low": float("nan") if low is None else low, "high": 0.3, "n": 1200, "interval_about": about}
    assert interval_of(pd.Series(row)) == words


def test_the_ends_of_rows():
    rows = pd.DataFrame({"value": [0.2, -0.5, 0.4], "layer": [0, 1, 2]})
    assert (least(rows)["layer"], greatest(rows)["layer"]) == (1, 2)
