"""Lines over layers: bands only for rows with an interval, a diamond only for rows with a kind, and faint untrained networks."""

import pandas as pd

from isoscope.charts import lazy_altair as alt
from isoscope.charts.axes import layer_axis
from isoscope.charts.layer_lines import FAINT_IF_UNTRAINED, FINAL, draw_layer_lines

NUMBERS = {"value": [0.5, 0.25], "low": [0.25, None], "high": [1.0, None]}
ROWS = pd.DataFrame({"kind": ["hidden", "final"], "layer": [0, 1], **NUMBERS}).assign(curve="a", policy="all", interval_about="population")
COLUMNS = ["curve", "kind", "layer", "policy", "value", "low", "high"]


def draw(rows: pd.DataFrame, **options: object) -> dict:
    y = alt.Y("value:Q", title="value", scale=alt.Scale(zero=True))
    return draw_layer_lines(rows, COLUMNS, x=layer_axis(), y=y, tone={"color": alt.Color("curve:N")}, tooltip=[], **options).to_dict()


def marks_of(spec: dict) -> list[str]:
    return [layer["mark"]["type"] for layer in spec["layer"]]


def test_bands_lines_points_and_diamond_in_this_order():
    spec = draw(ROWS)
    assert marks_of(spec) == ["area", "line", "point", "point"]
    assert [layer["transform"][0]["filter"] == FINAL for layer in spec["layer"]] == [False, False, False, True]
    band, line = spec["layer"][0]["encoding"], spec["layer"][1]["encoding"]
    assert (band["y"]["field"], band["y2"]["field"], line["y"]["field"]) == ("low", "high", "value")
    assert [row["low"] for row in next(iter(spec["datasets"].values()))] == [0.25, None]


def test_without_intervals_there_is_no_band_and_without_kinds_no_diamond():
    assert marks_of(draw(ROWS.assign(low=None))) == ["line", "point", "point"]
    assert marks_of(draw(ROWS, has_final=False)) == ["area", "line", "point"]


def test_the_reader_chooses_the_policy_unless_all_are_drawn():
    assert {"filter": "datum.policy == policy"} in draw(ROWS)["transform"]
    assert {"filter": "datum.policy == policy"} not in draw(ROWS, every_policy=True)["transform"]


def test_untrained_networks_are_faint():
    spec = draw(ROWS, faint=True)
    assert {"calculate": FAINT_IF_UNTRAINED, "as": "weight"} in spec["transform"]
    assert spec["layer"][1]["encoding"]["opacity"] == {"field": "weight", "type": "quantitative", "scale": None, "legend": None}
