"""The figures over a training: what is drawn are the numbers of the tables, and nothing where there is no suite."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from isoscope.core.group import checkpoints, first_seed, one_checkpoint, suites
from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, tidy
from isoscope.drawing.training import evenly, ticks
from isoscope.figures import figures
from isoscope.report.files import render_chart
from isoscope.report.training import OVER_STEPS
from isoscope.statistics.chance import head_threshold
from tests.figures.made_suite import HEADS, LAYERS, OPPOSITE, SAME, STEPS, SUITES, D, made_suite, vectors
from tests.figures.made_table import made_table

Tables = tuple[pd.DataFrame, pd.DataFrame]


@pytest.fixture(scope="module")
def both() -> Tables:
    return made_suite()


@pytest.fixture(scope="module")
def one(both) -> Tables:
    return tuple(frame[frame["model"].eq(SUITES[0])] for frame in both)


@pytest.fixture(scope="module")
def specs(one) -> dict[str, dict]:
    return {name: figures[name].draw(*one).to_dict() for name in OVER_STEPS}


@pytest.fixture(scope="module")
def no_suites(one) -> list[Tables]:
    """Tables without a suite: empty, of models that are none, and of one checkpoint."""
    return [(tidy([], TABLE_COLUMNS), tidy([], SERIES_COLUMNS)), made_table(), one_checkpoint(*one)]


def panels(spec: dict) -> list[dict]:
    return spec.get("concat") or [spec]


def rows_of(spec: dict, panel: dict, *columns: str) -> pd.DataFrame:
    """The rows of a panel's data set that has these columns."""
    names = [layer["data"]["name"] for layer in panel.get("layer", [panel]) if "data" in layer]
    names += [panel["data"]["name"]] if "data" in panel else []
    found = [pd.DataFrame(spec["datasets"][name]) for name in names]
    return next(frame for frame in found if set(columns) <= set(frame))


def test_every_figure_over_steps_is_in_the_order_of_the_page():
    assert sorted(OVER_STEPS) == [name for name in figures.names() if name.startswith("training_")]


@pytest.mark.parametrize("name", OVER_STEPS)
def test_without_a_suite_nothing_is_drawn(name, no_suites):
    assert [figures[name].draw(*tables) for tables in no_suites] == [None] * 3
    assert figures[name].caption.endswith(".")


def test_no_chart_holds_what_json_cannot_say(specs):
    for spec in specs.values():
        json.dumps(spec, allow_nan=False)


def test_each_can_be_printed(specs):
    for name in ("training_clouds", "training_paths", "training_cosine", "training_onsets", "training_dimension", "training_components"):
        picture = render_chart(specs[name], "svg").decode()
        assert "NaN" not in picture
        assert picture.count("<path") > 20


def test_cosine_is_that_of_the_first_seed_with_the_chance_of_all_heads(specs):
    spec = specs["training_cosine"]
    assert [panel["title"] for panel in panels(spec)] == [[f"layer {layer}"] for layer in range(1, LAYERS + 1)]
    level = head_threshold(D, LAYERS * HEADS)
    for layer, panel in enumerate(panels(spec), start=1):
        shown = rows_of(spec, panel, "head", "value")
        assert len(shown) == 2 * HEADS * len(STEPS)  # two policies
        for head in range(HEADS):
            own = shown[shown["head"].eq(head) & shown["policy"].eq("all")].set_index("step")["value"]
            for step in STEPS:
                q, k = (points.mean(0) for points in vectors(SUITES[0], 0, layer, head, step).values())
                assert own[step] == pytest.approx(q @ k / np.linalg.norm(q) / np.linalg.norm(k), abs=1e-4)
        chance = rows_of(spec, panel, "low", "high")
        assert (chance["high"] - level).abs().max() < 1e-4
        assert (chance["low"] + level).abs().max() < 1e-4


def test_chance_of_products_grows_with_the_means(specs, one):
    spec = specs["training_dot"]
    level = head_threshold(D, LAYERS * HEADS)
    chance = rows_of(spec, panels(spec)[0], "low", "high")
    at_end = chance[chance["step"].eq(STEPS[-1])]["high"].iloc[0]
    lengths = [
        np.prod([np.linalg.norm(points.mean(0)) for points in vectors(SUITES[0], 0, 1, head, STEPS[-1]).values()]) for head in range(HEADS)
    ]
    assert at_end == pytest.approx(level * max(lengths) / D**0.5, rel=1e-4)


def test_entropy_is_the_mean_over_heads_beside_that_of_uniform_rows(specs, one):
    table = one[0]
    spec = specs["training_entropy"]
    shown = rows_of(spec, panels(spec)[0], "layer", "value")
    own = table[table["metric"].eq("attention_entropy") & table["policy"].eq("all") & table["seed"].eq(0) & table["layer"].eq(2)]
    truth = own.groupby("step")["value"].mean()
    found = shown[shown["layer"].eq(2) & shown["policy"].eq("all") & shown["look"].eq("strong")].set_index("step")["value"]
    np.testing.assert_allclose(found[list(STEPS)], truth[list(STEPS)].to_numpy(float), rtol=1e-4)
    assert set(shown["null"]) == {3.5}
    assert set(shown.loc[shown["look"].eq("points"), "seed"]) == {1, 2}


def test_seeds_with_few_steps_are_points_and_have_no_line(specs):
    shown = rows_of(specs["training_seeds"], panels(specs["training_seeds"])[0], "curve", "value")
    assert shown.groupby("curve")["look"].unique().map(list).to_dict() == {"seed 0": ["strong"], "seed 1": ["points"], "seed 2": ["points"]}


def test_the_range_over_seeds_is_a_band_only_where_every_step_has_one(specs):
    assert specs["training_geometry"]["concat"][0]["layer"][0]["mark"]["type"] == "rule"
    table, series = made_suite((SUITES[0],), {0: STEPS, 1: STEPS})
    spec = figures["training_geometry"].draw(table, series).to_dict()
    layer = spec["concat"][0]["layer"][0]
    assert layer["mark"]["type"] == "area"
    shown = pd.DataFrame(spec["datasets"][layer["data"]["name"]])
    end = shown[shown["layer"].eq(3) & shown["step"].eq(STEPS[-1]) & shown["policy"].eq("all")].iloc[0]
    assert (end["least"], end["greatest"]) == pytest.approx((0.62, 0.64))


@pytest.mark.parametrize(
    ("name", "basis"), [("training_clouds", "union"), ("training_clouds_keys", "key"), ("training_clouds_queries", "query")]
)
def test_clouds_show_two_heads_at_four_steps_on_common_axes(name, basis, specs, one):
    spec = specs[name]
    steps = evenly(STEPS, 4)
    heads = [f"same direction: layer {SAME[0]}, head {SAME[1]}", f"opposite directions: layer {OPPOSITE[0]}, head {OPPOSITE[1]}"]
    assert [panel["title"] for panel in panels(spec)] == [[head, f"step {step}"] for head in heads for step in steps]
    series = one[1]
    for i, (layer, head) in enumerate((SAME, OPPOSITE)):
        row = panels(spec)[4 * i : 4 * i + 4]
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
def test_paths_hold_the_means_on_equal_units(name, basis, specs, one):
    spec, series = specs[name], one[1]
    assert len(panels(spec)) == 2
    for (layer, head), panel in zip((SAME, OPPOSITE), panels(spec), strict=True):
        own = series[series["name"].eq(f"mean_in_{basis}") & series["layer"].eq(layer) & series["head"].eq(head) & series["seed"].eq(0)]
        shown = rows_of(spec, panel, "curve", "step", "x")
        assert len(shown) == 2 * len(STEPS)
        np.testing.assert_allclose(np.sort(shown["y"]), np.sort(own["y"]), rtol=1e-4)
        x, y = (np.ptp(panel["layer"][0]["encoding"][axis]["scale"]["domain"]) for axis in ("x", "y"))
        assert x / panel["width"] == pytest.approx(y / panel["height"], rel=1e-3)
    ends = {
        (kind, i): pd.DataFrame(spec["datasets"][panel["layer"][1]["data"]["name"]])
        .query(f"step == {STEPS[-1]} and curve == '{kind}'")["x"]
        .item()
        for i, panel in enumerate(panels(spec))
        for kind in ("queries", "keys")
    }
    assert ends["queries", 0] * ends["keys", 0] > 0 > ends["queries", 1] * ends["keys", 1]


def test_a_head_that_is_aligned_by_chance_alone_is_said_to_be(one):
    table, series = one
    row = table[table["metric"].eq("same_direction")].assign(metric="qk_chance", head=pd.NA, layer=pd.NA, value=0.975)
    spec = figures["training_paths"].draw(pd.concat([table, row]).astype(TABLE_COLUMNS), series).to_dict()
    assert [panel["title"][1] for panel in panels(spec)] == ["cosine 0.97 at the end, within chance", "cosine −0.98 at the end"]


def test_the_first_component_carries_the_drift_of_both_in_every_basis(specs):
    spec = specs["training_components"]
    assert len(panels(spec)) == 6
    for panel in panels(spec):
        shown = rows_of(spec, panel, "curve", "y")
        for _, own in shown.groupby("curve"):
            assert (own["y"] ** 2)[own["x"].eq(1)].item() > 0.9 * (own["y"] ** 2).sum()


def test_maps_have_a_tile_a_layer_and_step(specs, one):
    table, spec = one[0], specs["training_map"]
    for metric, panel in zip(("mean_cosine", "drift_ratio", "top_share", "two_nn"), panels(spec), strict=True):
        shown = pd.DataFrame(spec["datasets"][panel["data"]["name"]]).query("policy == 'body'").sort_values(["layer", "step"])
        own = table[table["metric"].eq(metric) & table["kind"].eq("hidden") & table["seed"].eq(0) & table["policy"].eq("body")]
        np.testing.assert_allclose(shown["value"], own.sort_values(["layer", "step"])["value"].to_numpy(float), rtol=1e-4)


def test_dimension_says_the_verdict(specs):
    titles = [panel["title"] for panel in panels(specs["training_dimension"])]
    assert titles == [["by layer, the whole sample"], ["mean over blocks", "rise, then fall: undecided"]]


def test_onsets_pair_drift_and_sharpening_of_one_head(specs):
    spec = specs["training_onsets"]
    shown = rows_of(spec, panels(spec)[1], "heads", "value_drift", "value_sharp")
    assert len(shown) == LAYERS * HEADS
    row = shown[shown["layer"].eq(2) & shown["heads"].eq("3")].iloc[0]
    assert (row["value_drift"], row["value_sharp"], row["high_sharp"]) == (8, 8, 32)


def test_several_suites_are_named(both):
    titles = [panel["title"] for panel in panels(figures["training_cosine"].draw(*both).to_dict())]
    assert titles == [[suite, f"layer {layer}"] for suite in SUITES for layer in (1, 2, 3)]


def test_what_was_derived_is_drawn_whichever_tokens_are_chosen(specs):
    for name in ("training_paths", "training_clouds", "training_seeds", "training_alignment"):
        assert "datum.policy" not in json.dumps({key: value for key, value in specs[name].items() if key != "datasets"})


def test_step_0_is_on_the_axis():
    assert ticks(STEPS)[0] == 0
    assert ticks(STEPS)[-1] == STEPS[-1]
    assert ticks([0]) == [0]
    assert ticks([500]) == [500]


def test_one_checkpoint_is_the_last_of_the_first_seed_beside_step_0(both):
    table, series = one_checkpoint(*both)
    found = table[["model", "step", "seed"]].drop_duplicates()
    assert {tuple(row) for row in found.itertuples(index=False)} == {
        (name, step, 0) for suite in SUITES for name, step in ((suite, STEPS[-1]), (f"untrained:{suite}", 0))
    }
    assert not table["metric"].isin(["alignment", "same_direction", "rise_then_fall"]).any()
    assert table["revision"].notna().all()
    again = one_checkpoint(table, series)
    pd.testing.assert_frame_equal(again[0], table)


def test_models_that_are_no_suites_stay_as_they_are():
    table, series = made_table()
    assert suites(table) == []
    pd.testing.assert_frame_equal(one_checkpoint(table, series)[0], table)


def test_the_first_seed_is_that_with_the_most_steps_and_rows_about_all_seeds_are_none():
    rows = [(0, 0), (0, 9), (1, 0), (1, 5), (1, 9), (2, 0), (2, 5), (2, 9), *((None, step) for step in (0, 1, 5, 9))]
    frame = tidy([{"model": "m", "seed": seed, "step": step, "revision": "r"} for seed, step in rows], TABLE_COLUMNS)
    assert len(checkpoints(frame)) == 8
    assert set(first_seed(frame)["seed"]) == {1}
    alone = frame.assign(seed=pd.array([pd.NA] * len(frame), dtype="Int64"))
    assert len(first_seed(alone)) == len(alone)
    assert set(one_checkpoint(alone, tidy([], SERIES_COLUMNS))[0]["model"]) == {"m", "untrained:m"}


def test_a_training_without_step_0_has_no_twin(both):
    table = both[0][both[0]["step"].ne(0).fillna(True)]
    assert set(one_checkpoint(table, both[1].iloc[:0])[0]["model"]) == set(SUITES)
