"""Dimension over depth, scales and sample sizes, and the dimensions that carry the cosine."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from isoscope.figures import figures
from isoscope.figures.dimension import LAYERS as LAYERS_DRAWN
from tests.figures.made_shape import MODELS, NUMBERS
from tests.figures.made_table import THIRTY
from tests.figures.specs import list_rows


def test_dimension_share_shows_the_peak_layer_only(tables):
    spec = figures["dimension_share"].draw(*tables).to_dict()
    rows = [row for row in list_rows(spec) if row["line"] == THIRTY and row["policy"] == "all"]
    assert {row["layer"] for row in rows} == {30}
    assert [row["y"] for row in rows] == [0.45 * 0.5**k for k in range(10)]


@pytest.mark.parametrize(("name", "metrics"), [("shape_of_anisotropy", NUMBERS[:2]), ("intrinsic_dimension", NUMBERS[2:4])])
def test_each_metric_has_a_panel_with_the_numbers_of_the_table(name, metrics, shape_tables):
    table, series = shape_tables
    spec = figures[name].draw(table, series).to_dict()
    assert len(spec["concat"]) == len(metrics)
    for metric, panel in zip(metrics, spec["concat"], strict=True):
        shown = pd.DataFrame(spec["datasets"][panel["data"]["name"]])
        own = table[table["metric"] == metric]
        assert len(shown) == len(own)
        np.testing.assert_allclose(np.sort(shown["value"]), np.sort(own["value"].to_numpy(float)), rtol=1e-4)
        hidden = shown[shown["kind"] == "hidden"]
        assert (hidden.groupby("curve")["depth"].min() == 0).all()
        assert (hidden.groupby("curve")["depth"].max() == 1).all()
    one = figures[name].draw(table[table["metric"] == metrics[0]], series).to_dict()
    assert "concat" not in one


def test_only_the_intrinsic_dimension_is_drawn_with_its_null(shape_tables):
    for name, drawn in (("shape_of_anisotropy", False), ("intrinsic_dimension", True)):
        ys = [
            layer["encoding"].get("y", {}).get("field")
            for panel in figures[name].draw(*shape_tables).to_dict()["concat"]
            for layer in panel["layer"]
        ]
        assert ("null" in ys) is drawn


@pytest.mark.parametrize(("name", "of"), [("dimension_scales", "gride_scales"), ("dimension_sizes", "two_nn_sizes")])
def test_series_have_one_line_per_layer(name, of, shape_tables):
    table, series = shape_tables
    spec = figures[name].draw(table, series).to_dict()
    assert [panel["title"] for panel in spec["concat"]] == list(MODELS)
    for panel, (model, (_, layers)) in zip(spec["concat"], MODELS.items(), strict=True):
        shown = pd.DataFrame(spec["datasets"][panel["data"]["name"]])
        drawn = sorted(shown["layer"].unique())
        assert (drawn[0], drawn[-1], len(drawn)) == (0, layers, min(layers + 1, LAYERS_DRAWN))
        own = series[series["model"].eq(model) & series["name"].eq(of) & series["kind"].eq("hidden") & series["layer"].isin(drawn)]
        np.testing.assert_allclose(np.sort(shown["y"]), np.sort(own["y"].to_numpy(float)), rtol=1e-4)
        assert panel["layer"][0]["encoding"]["x"]["scale"]["type"] == "log"
