"""One metric over the layers: what is drawn follows from the columns that have values."""

import math

import pandas as pd

from isoscope.charts.legends import PALETTE
from isoscope.charts.metric_panel import DASHES, draw_metric_panel

SITE = {"line": "a", "stack": "encoder", "kind": "hidden", "policy": "all", "interval_about": "population", "n": 100, "d": 8}
ROWS = pd.DataFrame(
    [
        SITE | {"layer": layer, "value": value, "low": value - 0.1, "high": value + 0.1, "null": 0.0}
        for layer, value in ((1, 0.5), (0, 0.25))
    ]
)
NONE = ROWS.iloc[:0]


def draw(rows, second=NONE, names=("a",), **options):
    return draw_metric_panel(rows, second, "Cosine", list(names), **options).to_dict()


def marks_of(spec):
    return [layer["mark"]["type"] for layer in spec["layer"]]


def data_of(spec):
    (rows,) = spec["datasets"].values()
    return rows


def test_bands_whiskers_and_the_null_are_drawn_only_if_known():
    assert marks_of(draw(ROWS)) == ["area", "rule", "line", "line", "point", "point"]
    assert marks_of(draw(ROWS.assign(low=math.nan, high=math.nan))) == ["line", "line", "point", "point"]
    assert marks_of(draw(ROWS.assign(null=math.nan))) == ["area", "rule", "line", "point", "point"]
    assert [(row["layer"], row["value"]) for row in data_of(draw(ROWS))] == [(0, 0.25), (1, 0.5)]


def test_the_second_null_joins_the_layers_that_it_belongs_to():
    second = ROWS.assign(value=[0.75, 0.125], null=math.nan)
    other = second.assign(policy="body", value=9.0)
    spec = draw(ROWS, pd.concat([second, other]))
    assert [(row["layer"], row["norm_null"]) for row in data_of(spec)] == [(0, 0.125), (1, 0.75)]
    dashed = {layer["encoding"]["y"]["field"]: layer["mark"]["strokeDash"] for layer in spec["layer"] if "strokeDash" in layer["mark"]}
    assert dashed == DASHES


def test_only_a_flat_panel_starts_at_zero():
    def scales(rows):
        return [layer["encoding"]["y"]["scale"] for layer in draw(rows)["layer"] if layer["encoding"]["y"]["field"] == "value"]

    flat = ROWS.assign(value=0.5, low=math.nan, high=math.nan, null=math.nan)
    assert scales(flat) == [{"zero": True}] * 3
    assert scales(ROWS) == scales(flat.assign(null=0.25)) == [{"zero": False}] * 3


def test_colours_are_those_of_all_names_and_shapes_tell_stacks_apart():
    spec = draw(ROWS.assign(line="b"), names=("a", "b"), legend=False)
    colour = spec["layer"][-1]["encoding"]["color"]
    assert (colour["scale"], colour["legend"]) == ({"domain": ["a", "b"], "range": PALETTE[:2]}, None)
    assert not any("shape" in layer["encoding"] for layer in spec["layer"])
    both = draw(pd.concat([ROWS, ROWS.assign(stack="decoder")]))
    assert [layer["encoding"]["shape"]["field"] for layer in both["layer"] if "shape" in layer["encoding"]] == ["stack"]
