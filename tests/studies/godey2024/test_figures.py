"""The cosine of a group's models: the table, published curves and levels, and nothing else."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pytest

from isoscope.charts.legends import INK
from isoscope.core.model_groups import GROUPS, add_groups, add_places
from isoscope.estimation.isotropic_quantiles import one_pair
from isoscope.figures import figures
from isoscope.report.charts import find_legend, split_panels
from tests.figures.specs import NO_SERIES, draw_spec, rows_of, titles_of

OF_GROUP = dict(zip(GROUPS, ("token_models", "character_models", "speech_models", "vision_models", "convolutional_models"), strict=True))


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_has_its_models_and_no_others(group, zoo, zoo_spec):
    rows = rows_of(zoo_spec(OF_GROUP[group]))
    own = rows[rows["kind"] == "hidden"]
    members = set(add_groups(zoo).query("group == @group")["model"])
    assert set(own["curve"]) == members
    assert len(members) >= 2
    assert figures[OF_GROUP[group]].draw(add_groups(zoo).query("group != @group"), NO_SERIES) is None


def test_the_numbers_are_those_of_the_table(zoo, zoo_spec):
    rows = rows_of(zoo_spec("speech_models"))
    own = rows[(rows["curve"] == "whisper-base") & (rows["policy"] == "body") & rows["place"].notna()].sort_values("place")
    truth = zoo[(zoo["model"] == "whisper-base") & (zoo["policy"] == "body") & (zoo["metric"] == "mean_cosine")]
    truth = pd.concat([truth[truth["stack"] == stack].sort_values("layer") for stack in ("encoder", "decoder")])
    assert own["place"].tolist() == list(range(14))
    assert own["stack"].tolist() == ["encoder"] * 7 + ["decoder"] * 7
    for column in ("value", "low", "high"):
        np.testing.assert_allclose(own[column], truth[column].to_numpy(float), rtol=1e-4)
    np.testing.assert_allclose(own["pair"], one_pair(512), rtol=1e-4)


def test_stacks_follow_each_other_and_the_seam_is_marked(zoo, zoo_spec):
    spec = zoo_spec("speech_models")
    rows = rows_of(spec)
    seams = rows[rows["value"].isna() & rows["curve"].notna()]
    assert seams["curve"].tolist() == ["whisper-base"] * 2
    assert sorted(seams["place"].dropna()) == [6.5]
    assert seams["depth"].dropna().item() == pytest.approx(6.5 / 13, abs=1e-4)
    placed = add_places(zoo[zoo["model"].eq("byt5-small") & zoo["metric"].eq("mean_cosine") & zoo["policy"].eq("all")])
    assert placed.groupby("stack")["place"].agg(["min", "max"]).to_dict("index") == {
        "encoder": {"min": 0, "max": 12},
        "decoder": {"min": 13, "max": 17},
    }
    assert placed["depth"].max() == 1.0
    assert titles_of(spec) == ["mean cosine by layer", "mean cosine by relative depth"]


def test_published_curves_are_drawn_for_models_of_that_name(zoo, zoo_spec):
    rows = rows_of(zoo_spec("token_models"))
    name = "org/bert-base-uncased: Ethayarajh 2019 [code]"
    own = rows[(rows["curve"] == name) & rows["place"].notna()].sort_values("place")
    assert own["value"].tolist() == [0.105, 0.168, 0.219, 0.245, 0.327, 0.377, 0.420, 0.398, 0.399, 0.484, 0.561, 0.675, 0.477]
    relative = rows[(rows["curve"] == name) & rows["depth"].notna()].sort_values("depth")
    np.testing.assert_allclose(relative["depth"], np.arange(13) / 12, atol=1e-4)
    assert {label for label in rows["curve"].dropna().unique() if "[" in label} == {
        name,
        "gpt2: Ethayarajh 2019 [code]",
        "gpt2: Godey et al. 2024, small LMs [fig]",
    }
    other = rows_of(draw_spec("token_models", zoo[zoo["model"].isin(["t5-base", "untrained:gpt2"])]))
    assert not other["curve"].str.contains("[", regex=False, na=False).any()


def test_legend_separates_untrained_twins_published_curves_and_levels(zoo_spec):
    legend = {name: (tone, dash) for name, tone, dash in find_legend(zoo_spec("token_models"))}
    assert legend["gpt2"][1] == legend["t5-base"][1] == "1 0"
    assert legend["untrained:gpt2"][1] == "6 3"
    assert legend["gpt2: Ethayarajh 2019 [code]"] == (legend["gpt2"][0], "2 2")
    assert [name for name, (tone, _) in legend.items() if tone == INK] == [
        "isotropic: the average over pairs, 0",
        "isotropic: 95th percentile of one pair, at its d",
    ]


def test_convolution_has_both_readings_and_the_sites_around_norm_and_activation(zoo, zoo_spec):
    spec = zoo_spec("convolutional_models")
    assert titles_of(spec) == [
        "one vector per position, by layer",
        "one vector per position, by relative depth",
        "one vector per image, by layer",
        "one vector per image, by relative depth",
        "before the last norm, by layer",
        "after the last norm, by layer",
        "before the last activation, by layer",
        "after the last activation, by layer",
    ]
    levels = [rows[0]["value"] for rows in spec["datasets"].values() if len(rows) == 1]
    assert sorted(levels) == [0, pytest.approx(1 / math.pi)]
    few = draw_spec("convolutional_models", zoo[zoo["kind"].isin(["hidden", "after_activation"])])
    assert len(titles_of(few)) == 3


def test_the_level_of_a_pair_follows_the_dimension(zoo_spec):
    rows = rows_of(zoo_spec("vision_models"))
    own = rows[(rows["curve"] == "mit-b2") & (rows["policy"] == "all") & rows["place"].notna()].sort_values("place")
    assert own["d"].unique().tolist() == [64, 128, 320, 512]
    np.testing.assert_allclose(own["pair"], [one_pair(int(d)) for d in own["d"]], rtol=1e-4)


def test_page_replaces_the_legend_of_a_figure(zoo, zoo_spec):
    spec = zoo_spec("token_models")
    for panel in split_panels(spec):
        text = json.dumps({key: value for key, value in panel.items() if key != "datasets"})
        assert '"symbolType"' not in text
        assert panel["width"] == "container"
    assert find_legend(figures["layer_profile"].draw(zoo, NO_SERIES).to_dict()) == []
