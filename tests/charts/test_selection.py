"""Rows that a chart draws."""

from __future__ import annotations

from isoscope.charts.labels import label_lines
from isoscope.charts.selection import peak_layers
from tests.figures.made_table import SIX, made_table


def test_peak_is_the_layer_with_the_greatest_cosine_between_items():
    table, series = made_table()
    peaks = peak_layers(label_lines(table, series)[0]).set_index(["line", "policy"])["layer"]
    own = table[(table["model"] == SIX) & (table["metric"] == "between_cosine") & (table["kind"] == "hidden") & (table["policy"] == "body")]
    assert peaks[SIX, "body"] == own.loc[own["value"].idxmax(), "layer"] == 6
