"""Each figure draws what the tables hold, and nothing where they hold nothing."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, tidy
from isoscope.drawing.labels import label_lines, line_names
from isoscope.drawing.panels import arrange_panels
from isoscope.drawing.policies import list_policies, title_by_policy
from isoscope.drawing.selection import peak_layers, select_layers
from isoscope.figures import figures
from isoscope.figures.spectrum import isotropic_shares, pick_ranks
from tests.figures.made_table import SIX, THIRTY, made_table

NAMES = ["dimension_share", "drift_and_cosine", "layer_profile", "norms", "policy_difference", "spectrum"]


def drawn_rows(spec: dict) -> list[dict]:
    return [row for rows in spec["datasets"].values() for row in rows]


def test_registry_finds_every_figure_by_the_name_of_its_file():
    assert set(NAMES) <= set(figures.names())
    assert all(figures[name].name == name and figures[name].caption.endswith(".") for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_empty_tables_draw_nothing(name):
    assert figures[name].draw(tidy([], TABLE_COLUMNS), tidy([], SERIES_COLUMNS)) is None


@pytest.mark.parametrize("name", NAMES)
def test_a_table_without_layers_draws_nothing(name, tables):
    table, series = tables
    table = table[table["kind"] == "input_embedding"]
    assert figures[name].draw(table, series.iloc[:0]) is None


def test_profile_holds_exactly_the_numbers_of_the_table(tables):
    table, series = tables
    rows = select_layers(table[table["metric"] == "spectral_decay"])
    spec = figures["layer_profile"].draw(rows, series).to_dict()
    shown = pd.DataFrame(drawn_rows(spec)).sort_values(["line", "policy", "kind", "layer"])
    truth = rows.sort_values(["model", "policy", "kind", "layer"])
    for column in ("value", "low", "high", "null", "n", "d", "layer"):
        np.testing.assert_array_equal(shown[column].to_numpy(float), truth[column].to_numpy(float, na_value=np.nan))
    assert rows["value"].isna().any(), "the made table must hold undefined values"


def test_profile_has_a_panel_for_a_metric_it_has_never_heard_of(tables):
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
    row = next(r for r in drawn_rows(spec) if r["line"] == SIX and r["kind"] == "hidden" and r["layer"] == 3 and r["policy"] == "all")
    assert row["norm_null"] == pytest.approx(0.6 * row["value"])


def test_no_chart_holds_what_json_cannot_say(tables):
    table, series = (frame[frame["model"] == SIX] for frame in tables)
    table = table[table["metric"].str.contains("cosine|drift_ratio|top_share|decay")]
    for name in NAMES:
        json.dumps(figures[name].draw(table, series).to_dict(), allow_nan=False)


def test_two_stacks_are_two_lines_and_one_stack_needs_no_name():
    two, series = made_table(stacks=("encoder", "decoder"), twin=False)
    assert line_names(label_lines(two, series)[0]) == [f"{SIX} · encoder", f"{SIX} · decoder", f"{THIRTY} · encoder", f"{THIRTY} · decoder"]
    one, series = made_table(twin=False)
    assert line_names(label_lines(one, series)[0]) == [SIX, THIRTY]


def test_checkpoints_of_one_model_are_told_apart(tables):
    table, series = tables
    six = table[table["model"] == SIX]
    both = pd.concat([six.assign(revision="a", step=1), six.assign(revision="b", step=2)])
    assert line_names(label_lines(both, series.iloc[:0])[0]) == [f"{SIX}@a · step 1", f"{SIX}@b · step 2"]


def test_policies_come_in_their_standard_order(tables):
    table, _ = tables
    shuffled = pd.concat([table[table["policy"] == name] for name in ("body", "all", "no-special")])
    assert list_policies(pd.concat([shuffled.head(1).assign(policy="sink"), shuffled])) == ["all", "no-special", "body", "sink"]


def test_peak_is_the_layer_with_the_greatest_cosine_between_items(tables):
    table, series = tables
    peaks = peak_layers(label_lines(table, series)[0]).set_index(["line", "policy"])["layer"]
    own = table[(table["model"] == SIX) & (table["metric"] == "between_cosine") & (table["kind"] == "hidden") & (table["policy"] == "body")]
    assert peaks[SIX, "body"] == own.loc[own["value"].idxmax(), "layer"] == 6


def test_dimension_share_shows_the_peak_layer_only(tables):
    spec = figures["dimension_share"].draw(*tables).to_dict()
    rows = [row for row in drawn_rows(spec) if row["line"] == THIRTY and row["policy"] == "all"]
    assert {row["layer"] for row in rows} == {30}
    assert [row["y"] for row in rows] == [0.45 * 0.5**k for k in range(10)]


def test_spectrum_is_divided_by_its_sum(tables):
    table, series = tables
    spec = figures["spectrum"].draw(table, series).to_dict()
    panel = next(panel for panel in spec["concat"] if panel["title"] == SIX)
    rows = spec["datasets"][panel["layer"][0]["data"]["name"]]
    top = table[(table["model"] == SIX) & (table["metric"] == "top_share") & (table["policy"] == "all") & (table["kind"] == "hidden")]
    for layer, value in zip(top["layer"], top["value"], strict=True):
        first = next(r for r in rows if r["kind"] == "hidden" and r["layer"] == layer and r["policy"] == "all" and r["x"] == 1)
        assert first["share"] == pytest.approx(value, rel=1e-4)


def test_spectrum_without_top_share_sums_the_curve(tables):
    table, series = tables
    flat = pd.concat([series.head(1).assign(name="spectrum", kind="hidden", layer=0, x=float(k), y=2.0) for k in (1, 4, 16)])
    spec = figures["spectrum"].draw(table[table["metric"] != "top_share"], flat).to_dict()
    assert [row["share"] for row in drawn_rows(spec) if "y" in row] == [1 / 16] * 3


def test_thinning_keeps_the_first_ranks_and_the_last():
    kept = pick_ranks(120)
    assert kept[:10] == list(range(10))
    assert kept[-1] == 119
    assert len(kept) <= 42
    assert pick_ranks(5) == [0, 1, 2, 3, 4]


def test_isotropic_spectrum_agrees_with_a_simulation():
    n, d = 600, 60
    points = np.random.default_rng(0).normal(size=(n, d))
    values = np.linalg.eigvalsh(points.T @ points)[::-1]
    np.testing.assert_allclose(isotropic_shares(n, d), values / values.sum(), rtol=0.1)


def test_norm_bins_of_no_width_are_still_seen(tables):
    table, series = tables
    one = series[series["name"] == "norms"].head(1).assign(x=5.0, y=1.0, weight=0.0)
    row = next(r for r in drawn_rows(figures["norms"].draw(table, one).to_dict()) if "bottom" in r)
    assert row["bottom"] < 5 < row["top"]


def test_drift_figure_pairs_the_two_numbers_of_one_site(tables):
    table, series = tables
    rows = drawn_rows(figures["drift_and_cosine"].draw(table, series).to_dict())
    row = next(r for r in rows if r.get("line") == SIX and r["kind"] == "hidden" and r["layer"] == 4 and r["policy"] == "body")
    own = table[(table["model"] == SIX) & (table["kind"] == "hidden") & (table["layer"] == 4) & (table["policy"] == "body")]
    for column, metric in (("cosine", "mean_cosine"), ("drift_ratio", "drift_ratio")):
        assert row[column] == own.loc[own["metric"] == metric, "value"].item()


def test_policy_figure_needs_two_policies(tables):
    table, series = tables
    assert figures["policy_difference"].draw(table[table["policy"] == "all"], series) is None


def test_titles_are_quoted_not_evaluated():
    text = title_by_policy({"all": ['"] + alert(1) + ["', "layer 3"]}).to_dict()["text"]["expr"]
    assert text.endswith("[policy] || ''")
    assert json.loads(text.removesuffix("[policy] || ''")) == {"all": ['"] + alert(1) + ["', "layer 3"]}


def test_the_first_policy_is_the_one_printed(tables):
    spec = figures["drift_and_cosine"].draw(*tables).to_dict()
    assert spec["params"] == [{"name": "policy", "value": "all"}]
    assert arrange_panels([], tables[0]) is None
