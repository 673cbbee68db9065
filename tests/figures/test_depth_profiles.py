"""Metrics over relative depth."""

from __future__ import annotations

from isoscope.figures import figures
from isoscope.figures.depth_profiles import ROLES, add_depth, role_curves
from isoscope.report.charts import find_legend
from tests.figures.made_shape import made_shape


def test_colours_show_the_role_and_dashes_the_model():
    shape_tables = made_shape()
    curves = role_curves(add_depth(shape_tables[0]))
    assert list(curves) == ["org/encoder", "org/decoder", "org/other-decoder", "org/net"]
    assert curves["org/encoder"].name == "org/encoder · encoder"
    assert curves["org/decoder"].tone == curves["org/other-decoder"].tone == ROLES["decoder"] != curves["org/encoder"].tone
    assert curves["org/decoder"].dash != curves["org/other-decoder"].dash
    assert curves["org/net"].tone not in ROLES.values()
    spec = figures["shape_of_anisotropy"].draw(*shape_tables).to_dict()
    assert [name for name, *_ in find_legend(spec)] == [curve.name for curve in curves.values()]
