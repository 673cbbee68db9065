"""The comparison of token policies."""

from __future__ import annotations

from isoscope.figures import figures


def test_policy_figure_needs_two_policies(tables):
    table, series = tables
    assert figures["policy_difference"].draw(table[table["policy"] == "all"], series) is None
