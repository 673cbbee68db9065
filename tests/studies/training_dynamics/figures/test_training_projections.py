"""Queries and keys of two heads on components that all steps share."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from isoscope.charts.records import pick_evenly
from isoscope.core.table import TABLE_COLUMNS
from isoscope.figures import figures
from tests.figures.made_suite import OPPOSITE, SAME, STEPS
from tests.figures.specs import list_panels, rows_of_panel


@pytest.mark.parametrize(
    ("name", "basis"), [("training_clouds", "union"), ("training_clouds_keys", "key"), ("training_clouds_queries", "query")]
)
def test_clouds_show_two_heads_at_four_steps_on_common_axes(name, basis, specs, suite):
    spec = specs[name]
    steps = pick_evenly(STEPS, 4)
    heads = [f"same direction: layer {SAME[0]}, head {SAME[1]}", f"opposite directions: layer {OPPOSITE[0]}, head {OPPOSITE[1]}"]
    assert [panel["title"] for panel in list_panels(spec)] == [[head, f"step {step}"] for head in heads for step in steps]
    series = suite[1]
    for i, (layer, head) in enumerate((SAME, OPPOSITE)):
        row = list_panels(spec)[4 * i : 4 * i + 4]
        domains = {json.dumps(panel["layer"][0]["encoding"][axis]["scale"]["domain"]) for panel in row for axis in ("x",)}
        assert len(domains) == 1
        own = series[series["name"].eq(f"cloud_in_{basis}") & series["layer"].eq(layer) & series["head"].eq(head)]
        for step, panel in zip(steps, row, strict=True):
            shown = pd.DataFrame(spec["datasets"][panel["layer"][0]["data"]["name"]])
            truth = own[own["step"].eq(step)]
            np.testing.assert_allclose(np.sort(shown["x"]), np.sort(truth["x"]), rtol=1e-4)
            path = pd.DataFrame(spec["datasets"][panel["layer"][2]["data"]["name"]])
            assert path["step"].max() == step


@pytest.mark.parametrize(
    ("name", "basis"), [("training_paths", "union"), ("training_paths_keys", "key"), ("training_paths_queries", "query")]
)
def test_paths_hold_the_means_on_equal_units(name, basis, specs, suite):
    spec, series = specs[name], suite[1]
    assert len(list_panels(spec)) == 2
    for (layer, head), panel in zip((SAME, OPPOSITE), list_panels(spec), strict=True):
        own = series[series["name"].eq(f"mean_in_{basis}") & series["layer"].eq(layer) & series["head"].eq(head) & series["seed"].eq(0)]
        shown = rows_of_panel(spec, panel, "curve", "step", "x")
        assert len(shown) == 2 * len(STEPS)
        np.testing.assert_allclose(np.sort(shown["y"]), np.sort(own["y"]), rtol=1e-4)
        x, y = (np.ptp(panel["layer"][0]["encoding"][axis]["scale"]["domain"]) for axis in ("x", "y"))
        assert x / panel["width"] == pytest.approx(y / panel["height"], rel=1e-3)
    ends = {
        (kind, i): pd.DataFrame(spec["datasets"][panel["layer"][1]["data"]["name"]])
        .query(f"step == {STEPS[-1]} and curve == '{kind}'")["x"]
        .item()
        for i, panel in enumerate(list_panels(spec))
        for kind in ("queries", "keys")
    }
    assert ends["queries", 0] * ends["keys", 0] > 0 > ends["queries", 1] * ends["keys", 1]


def test_title_remarks_on_a_cosine_within_chance(suite):
    table, series = suite
    row = table[table["metric"].eq("same_direction")].assign(metric="qk_chance", head=pd.NA, layer=pd.NA, value=0.975)
    spec = figures["training_paths"].draw(pd.concat([table, row]).astype(TABLE_COLUMNS), series).to_dict()
    assert [panel["title"][1] for panel in list_panels(spec)] == ["cosine 0.97 at the end, within chance", "cosine −0.98 at the end"]


def test_the_first_component_carries_the_drift_of_both_in_every_basis(specs):
    spec = specs["training_components"]
    assert len(list_panels(spec)) == 6
    for panel in list_panels(spec):
        shown = rows_of_panel(spec, panel, "curve", "y")
        for _, own in shown.groupby("curve"):
            assert (own["y"] ** 2)[own["x"].eq(1)].item() > 0.9 * (own["y"] ** 2).sum()
