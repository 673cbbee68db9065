"""Numbers over the steps of a training: those of the tables, with the level of chance."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from isoscope.estimation.isotropic_quantiles import head_threshold
from isoscope.figures import figures
from tests.figures.made_suite import HEADS, LAYERS, STEPS, SUITES, D, made_suite, vectors
from tests.figures.specs import list_panels, rows_of_panel


def test_cosine_is_that_of_the_first_seed_with_the_chance_of_all_heads(specs):
    spec = specs["training_cosine"]
    assert [panel["title"] for panel in list_panels(spec)] == [[f"layer {layer}"] for layer in range(1, LAYERS + 1)]
    level = head_threshold(D, LAYERS * HEADS)
    for layer, panel in enumerate(list_panels(spec), start=1):
        shown = rows_of_panel(spec, panel, "head", "value")
        assert len(shown) == 2 * HEADS * len(STEPS)  # two policies
        for head in range(HEADS):
            own = shown[shown["head"].eq(head) & shown["policy"].eq("all")].set_index("step")["value"]
            for step in STEPS:
                q, k = (points.mean(0) for points in vectors(SUITES[0], 0, layer, head, step).values())
                assert own[step] == pytest.approx(q @ k / np.linalg.norm(q) / np.linalg.norm(k), abs=1e-4)
        chance = rows_of_panel(spec, panel, "low", "high")
        assert (chance["high"] - level).abs().max() < 1e-4
        assert (chance["low"] + level).abs().max() < 1e-4


def test_chance_of_products_grows_with_the_means(specs, suite):
    spec = specs["training_dot"]
    level = head_threshold(D, LAYERS * HEADS)
    chance = rows_of_panel(spec, list_panels(spec)[0], "low", "high")
    at_end = chance[chance["step"].eq(STEPS[-1])]["high"].iloc[0]
    lengths = [
        np.prod([np.linalg.norm(points.mean(0)) for points in vectors(SUITES[0], 0, 1, head, STEPS[-1]).values()]) for head in range(HEADS)
    ]
    assert at_end == pytest.approx(level * max(lengths) / D**0.5, rel=1e-4)


def test_entropy_is_the_mean_over_heads_with_that_of_uniform_rows(specs, suite):
    table = suite[0]
    spec = specs["training_entropy"]
    shown = rows_of_panel(spec, list_panels(spec)[0], "layer", "value")
    own = table[table["metric"].eq("attention_entropy") & table["policy"].eq("all") & table["seed"].eq(0) & table["layer"].eq(2)]
    truth = own.groupby("step")["value"].mean()
    found = shown[shown["layer"].eq(2) & shown["policy"].eq("all") & shown["look"].eq("strong")].set_index("step")["value"]
    np.testing.assert_allclose(found[list(STEPS)], truth[list(STEPS)].to_numpy(float), rtol=1e-4)
    assert set(shown["null"]) == {3.5}
    assert set(shown.loc[shown["look"].eq("points"), "seed"]) == {1, 2}


def test_seeds_with_few_steps_are_points_and_have_no_line(specs):
    shown = rows_of_panel(specs["training_seeds"], list_panels(specs["training_seeds"])[0], "curve", "value")
    assert shown.groupby("curve")["look"].unique().map(list).to_dict() == {"seed 0": ["strong"], "seed 1": ["points"], "seed 2": ["points"]}


def test_range_over_seeds_is_a_band_only_if_every_step_has_one(specs):
    assert specs["training_geometry"]["concat"][0]["layer"][0]["mark"]["type"] == "rule"
    table, series = made_suite((SUITES[0],), {0: STEPS, 1: STEPS})
    spec = figures["training_geometry"].draw(table, series).to_dict()
    layer = spec["concat"][0]["layer"][0]
    assert layer["mark"]["type"] == "area"
    shown = pd.DataFrame(spec["datasets"][layer["data"]["name"]])
    end = shown[shown["layer"].eq(3) & shown["step"].eq(STEPS[-1]) & shown["policy"].eq("all")].iloc[0]
    assert (end["least"], end["greatest"]) == pytest.approx((0.62, 0.64))


def test_dimension_title_gives_the_verdict(specs):
    titles = [panel["title"] for panel in list_panels(specs["training_dimension"])]
    assert titles == [["by layer, the whole sample"], ["mean over blocks", "rise, then fall: undecided"]]


def test_several_suites_are_named(suites):
    titles = [panel["title"] for panel in list_panels(figures["training_cosine"].draw(*suites).to_dict())]
    assert titles == [[suite, f"layer {layer}"] for suite in SUITES for layer in (1, 2, 3)]


def test_derived_rows_are_drawn_for_every_token_policy(specs):
    for name in ("training_paths", "training_clouds", "training_seeds", "training_alignment"):
        assert "datum.policy" not in json.dumps({key: value for key, value in specs[name].items() if key != "datasets"})
