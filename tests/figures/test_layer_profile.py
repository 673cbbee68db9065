"""Every metric over the layers: the numbers of the table, one panel per metric."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from isoscope.charts.records import select_layers
from isoscope.figures import figures
from tests.figures.made_table import SIX
from tests.figures.specs import list_rows


def test_profile_holds_exactly_the_numbers_of_the_table(tables):
    table, series = tables
    rows = select_layers(table[table["metric"] == "spectral_decay"])
    spec = figures["layer_profile"].draw(rows, series).to_dict()
    shown = pd.DataFrame(list_rows(spec)).sort_values(["line", "policy", "kind", "layer"])
    truth = rows.sort_values(["model", "policy", "kind", "layer"])
    for column in ("value", "low", "high", "null", "n", "d", "layer"):
        np.testing.assert_array_equal(shown[column].to_numpy(float), truth[column].to_numpy(float, na_value=np.nan))
    assert rows["value"].isna().any(), "the made table must hold undefined values"


def test_unknown_metric_gets_a_panel(tables):
    table, series = (frame[frame["model"] == SIX] for frame in tables)
    table = table[table["metric"].isin(["within_cosine", "mean_norm", "between_cosine", "top_share", "top_share_norm_null"])]
    own = table[table["metric"] == "mean_norm"].assign(metric="my_metric")
    spec = figures["layer_profile"].draw(pd.concat([table, own]), series).to_dict()
    titles = [panel["title"] for panel in spec["concat"]]
    assert "my_metric" in titles
    assert titles[0] == "between_cosine"
    assert set(titles) == {*table["metric"], "my_metric"} - {"top_share_norm_null"}


def test_second_null_is_drawn_with_its_metric(tables):
    table, series = tables
    own = table[table["metric"].isin(["top_share", "top_share_norm_null"])]
    spec = figures["layer_profile"].draw(own, series).to_dict()
    assert spec["title"] == "top_share"
    row = next(r for r in list_rows(spec) if r["line"] == SIX and r["kind"] == "hidden" and r["layer"] == 3 and r["policy"] == "all")
    assert row["norm_null"] == pytest.approx(0.6 * row["value"])


def test_policy_figure_needs_two_policies(tables):
    table, series = tables
    assert figures["policy_difference"].draw(table[table["policy"] == "all"], series) is None


def test_pooled_vectors_are_a_line_of_their_own_at_their_own_n(tables):
    table, series = tables
    own = table[(table["metric"] == "top_share") & (table["model"] == SIX)]
    last = own[own["kind"] == "hidden"].sort_values("layer").groupby("policy").tail(1)
    pooled = last.assign(kind="pooled", value=0.125, n=60, interval_about="this n")
    own = own.assign(n=9000, interval_about="this n")
    spec = figures["layer_profile"].draw(pd.concat([own, pooled]), series).to_dict()
    panels = {
        panel["title"]["subtitle"].split(";")[0]: list_rows(
            panel | {"datasets": {panel["data"]["name"]: spec["datasets"][panel["data"]["name"]]}}
        )
        for panel in spec["concat"]
    }
    assert set(panels) == {"n = 9,000", "n = 60"}
    assert {(row["line"], row["kind"], row["value"]) for row in panels["n = 60"]} == {(f"{SIX}, pooled", "pooled", 0.125)}
    assert {row["line"] for row in panels["n = 9,000"]} == {SIX}
