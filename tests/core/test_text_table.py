"""Tables as text: wide characters take two columns, accents none, and empty columns are left out."""

import pytest

from isoscope.core.text_table import align_groups, align_table, html_table, text_width


@pytest.mark.parametrize(("text", "width"), [("", 0), ("mean", 4), ("東京", 4), ("e\u0301", 1), ("Ａ", 2), ("95 % – ±", 8)])
def test_the_width_is_counted_in_columns_of_a_terminal(text, width):
    assert text_width(text) == width


def test_columns_line_up_below_wide_characters():
    rows = [["東京", "0.5", "", "x"], ["e\u0301te", "12.25", " ", ""]]
    assert align_table(["model", "value", "note", "more"], rows, left=1).splitlines() == [
        "model  value  more",
        "東京     0.5     x",
        "e\u0301te    12.25",
    ]
    assert align_table(["a", "note"], []) == "a  note", "a table without rows keeps its head"


def test_groups_share_the_widths_of_one_table():
    groups = {"first": [["0", "0.5"]], "none": [], "second": [["10", "1,234"], ["final norm", ""]]}
    assert align_groups(["layer", "value"], groups) == [
        *("layer       value", ""),
        *("first", "0             0.5", ""),
        *("none", ""),
        *("second", "10          1,234", "final norm"),
    ]


def test_html_has_the_same_columns_and_no_markup_of_its_cells():
    page = html_table(["<i>", "note", "value"], [["a&b", "", "1"]])
    assert page == (
        '<table><thead><tr><th style="text-align:left">&lt;i&gt;</th><th style="text-align:right">value</th></tr></thead>'
        '<tbody><tr><td style="text-align:left">a&amp;b</td><td style="text-align:right">1</td></tr></tbody></table>'
    )
