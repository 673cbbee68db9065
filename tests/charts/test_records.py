"""Which rows are drawn, and how lines are labelled."""

from __future__ import annotations

import pandas as pd

from isoscope.charts.records import label_lines, line_names, peak_layers
from tests.figures.made_table import SIX, THIRTY, made_table


def test_peak_is_the_layer_with_the_greatest_cosine_between_items():
    table, series = made_table()
    peaks = peak_layers(label_lines(table, series)[0]).set_index(["line", "policy"])["layer"]
    own = table[(table["model"] == SIX) & (table["metric"] == "between_cosine") & (table["kind"] == "hidden") & (table["policy"] == "body")]
    assert peaks[SIX, "body"] == own.loc[own["value"].idxmax(), "layer"] == 6


def test_two_stacks_are_two_lines_and_one_stack_needs_no_name():
    two, series = made_table(stacks=("encoder", "decoder"), twin=False)
    assert line_names(label_lines(two, series)[0]) == [f"{SIX} · encoder", f"{SIX} · decoder", f"{THIRTY} · encoder", f"{THIRTY} · decoder"]
    one, series = made_table(twin=False)
    assert line_names(label_lines(one, series)[0]) == [SIX, THIRTY]


def test_checkpoints_of_one_model_are_told_apart():
    table, series = made_table()
    six = table[table["model"] == SIX]
    both = pd.concat([six.assign(revision="a", step=1), six.assign(revision="b", step=2)])
    assert line_names(label_lines(both, series.iloc[:0])[0]) == [f"{SIX}@a · step 1", f"{SIX}@b · step 2"]
