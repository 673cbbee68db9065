"""The figures of "The Shape of Learning": what is drawn is the table, and nothing where it holds nothing."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, tidy
from isoscope.drawing.depth_profile import ROLES, by_depth, role_curves
from isoscope.drawing.layer_curves import MOST
from isoscope.figures import figures
from isoscope.figures.local_isotropy import CONTROL, LOCAL, WHOLE
from isoscope.report.charts import find_legend
from isoscope.report.files import render_chart

NAMES = ["shape_of_anisotropy", "intrinsic_dimension", "dimension_scales", "dimension_sizes", "local_isotropy"]
MODELS = {"org/decoder": ("decoder", 12), "org/other-decoder": ("decoder", 6), "org/encoder": ("encoder", 6), "org/net": ("backbone", 4)}
NUMBERS = ("top_share", "top_share_linear", "two_nn", "two_nn_batches", "local_share", "local_share_excess")


def made() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Both tables of four models, with profiles of whole stacks among the rows, which no figure may trip over."""
    rng = np.random.default_rng(0)
    rows: list[dict[str, object]] = []
    points: list[dict[str, object]] = []
    for model, (stack, layers) in MODELS.items():
        for policy in ("all", "body"):
            who = {"model": model, "revision": "main", "modality": "text", "family": stack, "stack": stack, "policy": policy}
            for kind, layer in [*(("hidden", layer) for layer in range(layers + 1)), ("final", layers + 1)]:
                at = who | {"kind": kind, "layer": layer}
                for metric in NUMBERS:
                    value = float(rng.uniform(0.1, 0.9))
                    rows.append(
                        at | {"metric": metric, "value": value, "low": value - 0.1, "high": value + 0.1, "null": value / 2, "n": 9, "d": 8}
                    )
                for name, across in (("gride_scales", (1, 2, 4, 8)), ("two_nn_sizes", (64, 128, 256))):
                    points += [at | {"name": name, "x": x, "y": float(rng.uniform(5, 9)), "weight": 0.5} for x in across]
            rows += [who | {"kind": "hidden", "metric": "bell", "value": 0.2, "low": 0.1, "high": 0.3, "n": 9, "d": 8}]
    return tidy(rows, TABLE_COLUMNS), tidy(points, SERIES_COLUMNS)


@pytest.fixture(scope="module")
def both() -> tuple[pd.DataFrame, pd.DataFrame]:
    return made()


def rows_of(spec: dict) -> pd.DataFrame:
    return pd.DataFrame([row for rows in spec["datasets"].values() for row in rows])


@pytest.mark.parametrize("name", NAMES)
def test_nothing_to_draw_draws_nothing(name, both):
    table, series = both
    assert figures[name].draw(tidy([], TABLE_COLUMNS), tidy([], SERIES_COLUMNS)) is None
    assert figures[name].draw(table[table["metric"] == "bell"], series.iloc[:0]) is None
    assert figures[name].caption.endswith(".")
    json.dumps(figures[name].draw(table, series).to_dict(), allow_nan=False)


@pytest.mark.parametrize(("name", "metrics"), [("shape_of_anisotropy", NUMBERS[:2]), ("intrinsic_dimension", NUMBERS[2:4])])
def test_a_panel_a_metric_with_the_numbers_of_the_table(name, metrics, both):
    table, series = both
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


def test_colours_say_what_a_model_is_and_dashes_which(both):
    curves = role_curves(by_depth(both[0]))
    assert list(curves) == ["org/encoder", "org/decoder", "org/other-decoder", "org/net"]
    assert curves["org/encoder"].name == "org/encoder · encoder"
    assert curves["org/decoder"].tone == curves["org/other-decoder"].tone == ROLES["decoder"] != curves["org/encoder"].tone
    assert curves["org/decoder"].dash != curves["org/other-decoder"].dash
    assert curves["org/net"].tone not in ROLES.values()
    spec = figures["shape_of_anisotropy"].draw(*both).to_dict()
    assert [name for name, *_ in find_legend(spec)] == [curve.name for curve in curves.values()]


def test_only_the_intrinsic_dimension_is_drawn_with_its_null(both):
    for name, drawn in (("shape_of_anisotropy", False), ("intrinsic_dimension", True)):
        ys = [
            layer["encoding"].get("y", {}).get("field")
            for panel in figures[name].draw(*both).to_dict()["concat"]
            for layer in panel["layer"]
        ]
        assert ("null" in ys) is drawn


@pytest.mark.parametrize(("name", "of"), [("dimension_scales", "gride_scales"), ("dimension_sizes", "two_nn_sizes")])
def test_series_are_drawn_a_line_a_layer(name, of, both):
    table, series = both
    spec = figures[name].draw(table, series).to_dict()
    assert [panel["title"] for panel in spec["concat"]] == list(MODELS)
    for panel, (model, (_, layers)) in zip(spec["concat"], MODELS.items(), strict=True):
        shown = pd.DataFrame(spec["datasets"][panel["data"]["name"]])
        drawn = sorted(shown["layer"].unique())
        assert (drawn[0], drawn[-1], len(drawn)) == (0, layers, min(layers + 1, MOST))
        own = series[series["model"].eq(model) & series["name"].eq(of) & series["kind"].eq("hidden") & series["layer"].isin(drawn)]
        np.testing.assert_allclose(np.sort(shown["y"]), np.sort(own["y"].to_numpy(float)), rtol=1e-4)
        assert panel["layer"][0]["encoding"]["x"]["scale"]["type"] == "log"


def test_local_share_stands_beside_the_global_one_and_its_control(both):
    table, series = both
    spec = figures["local_isotropy"].draw(table, series).to_dict()
    assert [panel["title"] for panel in spec["concat"]] == [title for model in MODELS for title in (model, f"{model}: excess")]
    shown = pd.DataFrame(spec["datasets"][spec["concat"][0]["data"]["name"]])
    own = table[table["model"].eq("org/decoder") & table["kind"].eq("hidden") & table["layer"].notna()]
    for cloud, metric, column in ((WHOLE, "top_share", "value"), (LOCAL, "local_share", "value"), (CONTROL, "local_share", "null")):
        truth = own.loc[own["metric"] == metric, column].to_numpy(float)
        np.testing.assert_allclose(np.sort(shown.loc[shown["cloud"] == cloud, "value"]), np.sort(truth), rtol=1e-4)
    without = figures["local_isotropy"].draw(table[table["metric"] != "local_share_excess"], series).to_dict()
    assert [panel["title"] for panel in without["concat"]] == list(MODELS)


def test_each_can_be_printed(both):
    for name in NAMES:
        picture = render_chart(figures[name].draw(*both).to_dict(), "svg").decode()
        assert picture.count("<path") > 20
        assert "NaN" not in picture
