"""Onsets of drift and sharpening, and maps of geometry over layers and steps."""

from __future__ import annotations

import numpy as np
import pandas as pd

from tests.figures.made_suite import HEADS, LAYERS
from tests.figures.specs import list_panels, rows_of_panel


def test_maps_have_one_tile_per_layer_and_step(specs, suite):
    table, spec = suite[0], specs["training_map"]
    for metric, panel in zip(("mean_cosine", "drift_ratio", "top_share", "two_nn"), list_panels(spec), strict=True):
        shown = pd.DataFrame(spec["datasets"][panel["data"]["name"]]).query("policy == 'body'").sort_values(["layer", "step"])
        own = table[table["metric"].eq(metric) & table["kind"].eq("hidden") & table["seed"].eq(0) & table["policy"].eq("body")]
        np.testing.assert_allclose(shown["value"], own.sort_values(["layer", "step"])["value"].to_numpy(float), rtol=1e-4)


def test_onsets_pair_drift_and_sharpening_of_one_head(specs):
    spec = specs["training_onsets"]
    shown = rows_of_panel(spec, list_panels(spec)[1], "heads", "value_drift", "value_sharp")
    assert len(shown) == LAYERS * HEADS
    row = shown[shown["layer"].eq(2) & shown["heads"].eq("3")].iloc[0]
    assert (row["value_drift"], row["value_sharp"], row["high_sharp"]) == (8, 8, 32)
