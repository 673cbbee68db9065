"""The figures that compare models of one group: what is drawn is the table, published curves and levels, and nothing else."""

from __future__ import annotations

import json
import math
from functools import cache

import numpy as np
import pandas as pd
import pytest

from isoscope.core.group import GROUPS, grouped, in_a_row
from isoscope.core.published import CURVES, published
from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, tidy
from isoscope.drawing import INK, PALETTE, model_curves, with_curves
from isoscope.figures import figures
from isoscope.report.charts import find_legend, split_panels
from isoscope.statistics.association import associations
from isoscope.statistics.chance import one_pair
from tests.figures.made_table import ZOO, made_zoo

OF_GROUP = dict(zip(GROUPS, ("token_models", "character_models", "speech_models", "vision_models", "convolutional_models"), strict=True))
ACROSS = ["drift_spearman", "drift_pearson", "isotropic_level"]
NONE = tidy([], SERIES_COLUMNS)


@pytest.fixture(scope="module")
def zoo() -> pd.DataFrame:
    return made_zoo()


@pytest.fixture(scope="module")
def drawn(zoo):
    """`drawn(name)`: a figure of the whole zoo, drawn once."""
    return cache(lambda name: figures[name].draw(zoo, NONE).to_dict())


def spec_of(name: str, table: pd.DataFrame) -> dict:
    return figures[name].draw(table, NONE).to_dict(validate=False)


def rows_of(spec: dict) -> pd.DataFrame:
    return pd.DataFrame([row for rows in spec["datasets"].values() for row in rows])


def titles_of(spec: dict) -> list[str]:
    return [panel["title"] for panel in spec["concat"]]


@pytest.mark.parametrize("name", [*OF_GROUP.values(), *ACROSS])
def test_nothing_to_draw_draws_nothing(name, zoo, drawn):
    assert figures[name].draw(tidy([], TABLE_COLUMNS), NONE) is None
    assert figures[name].draw(zoo[zoo["metric"] == "drift_norm"], NONE) is None
    assert figures[name].draw(zoo.assign(modality=None), NONE) is None
    json.dumps(drawn(name), allow_nan=False)


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_has_its_models_and_no_others(group, zoo, drawn):
    rows = rows_of(drawn(OF_GROUP[group]))
    own = rows[rows["kind"] == "hidden"]
    members = set(grouped(zoo).query("group == @group")["model"])
    assert set(own["curve"]) == members
    assert len(members) >= 2
    assert figures[OF_GROUP[group]].draw(grouped(zoo).query("group != @group"), NONE) is None


def test_the_numbers_are_those_of_the_table(zoo, drawn):
    rows = rows_of(drawn("speech_models"))
    own = rows[(rows["curve"] == "whisper-base") & (rows["policy"] == "body") & rows["place"].notna()].sort_values("place")
    truth = zoo[(zoo["model"] == "whisper-base") & (zoo["policy"] == "body") & (zoo["metric"] == "mean_cosine")]
    truth = pd.concat([truth[truth["stack"] == stack].sort_values("layer") for stack in ("encoder", "decoder")])
    assert own["place"].tolist() == list(range(14))
    assert own["stack"].tolist() == ["encoder"] * 7 + ["decoder"] * 7
    for column in ("value", "low", "high"):
        np.testing.assert_allclose(own[column], truth[column].to_numpy(float), rtol=1e-4)
    np.testing.assert_allclose(own["pair"], one_pair(512), rtol=1e-4)


def test_stacks_follow_each_other_and_the_seam_is_marked(zoo, drawn):
    spec = drawn("speech_models")
    rows = rows_of(spec)
    seams = rows[rows["value"].isna() & rows["curve"].notna()]
    assert seams["curve"].tolist() == ["whisper-base"] * 2
    assert sorted(seams["place"].dropna()) == [6.5]
    assert seams["depth"].dropna().item() == pytest.approx(6.5 / 13, abs=1e-4)
    placed = in_a_row(zoo[zoo["model"].eq("byt5-small") & zoo["metric"].eq("mean_cosine") & zoo["policy"].eq("all")])
    assert placed.groupby("stack")["place"].agg(["min", "max"]).to_dict("index") == {
        "encoder": {"min": 0, "max": 12},
        "decoder": {"min": 13, "max": 17},
    }
    assert placed["depth"].max() == 1.0
    assert titles_of(spec) == ["mean cosine by layer", "mean cosine by relative depth"]


def test_layers_that_were_not_measured_leave_their_place(zoo):
    some = zoo[(zoo["model"] == "gpt2") & zoo["layer"].isin([0, 4, 12]) & (zoo["kind"] == "hidden")]
    assert sorted(in_a_row(some)["place"].unique()) == [0, 4, 12]


def test_published_curves_stand_beside_a_model_of_that_name(zoo, drawn):
    rows = rows_of(drawn("token_models"))
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
    other = rows_of(spec_of("token_models", zoo[zoo["model"].isin(["t5-base", "untrained:gpt2"])]))
    assert not other["curve"].str.contains("[", regex=False, na=False).any()


@pytest.mark.parametrize("name", ["gpt2", "openai-community/gpt2", "GPT2", "openai-community--gpt2", "org/gpt2@main"])
def test_names_of_one_model(name):
    assert [curve.read for curve in published(name)] == ["code", "fig"]


def test_published_values_are_cosines_and_say_how_they_were_read():
    for curve in CURVES:
        assert all(0 < value < 1 for value in curve.values)
        assert curve.read in ("code", "fig")
        assert len(curve.values) in (1, 13)


def test_the_legend_tells_an_untrained_twin_a_published_curve_and_a_level(drawn):
    legend = {name: (tone, dash) for name, tone, dash in find_legend(drawn("token_models"))}
    assert legend["gpt2"][1] == legend["t5-base"][1] == "1 0"
    assert legend["untrained:gpt2"][1] == "6 3"
    assert legend["gpt2: Ethayarajh 2019 [code]"] == (legend["gpt2"][0], "2 2")
    assert [name for name, (tone, _) in legend.items() if tone == INK] == [
        "isotropic: the average over pairs, 0",
        "isotropic: 95th percentile of one pair, at its d",
    ]


def test_models_of_a_figure_differ_in_colour_as_long_as_there_are_colours(zoo):
    one = zoo[zoo["model"] == "gpt2"]
    many = pd.concat([one.assign(model=f"model {i}", stack=stack) for i in range(9) for stack in ("encoder", "decoder")])
    tones = [curve.tone for curve in model_curves(with_curves(many))]
    assert len(tones) == len(set(tones)) == 9
    assert INK not in tones
    assert set(tones) <= set(PALETTE)


def test_convolution_has_both_readings_and_the_sites_around_norm_and_activation(zoo, drawn):
    spec = drawn("convolutional_models")
    assert titles_of(spec) == [
        "one vector a position, by layer",
        "one vector a position, by relative depth",
        "one vector an image, by layer",
        "one vector an image, by relative depth",
        "before the last norm, by layer",
        "after the last norm, by layer",
        "before the last activation, by layer",
        "after the last activation, by layer",
    ]
    levels = [rows[0]["value"] for rows in spec["datasets"].values() if len(rows) == 1]
    assert sorted(levels) == [0, pytest.approx(1 / math.pi)]
    few = spec_of("convolutional_models", zoo[zoo["kind"].isin(["hidden", "after_activation"])])
    assert len(titles_of(few)) == 3


def test_the_level_of_a_pair_follows_the_dimension(drawn):
    rows = rows_of(drawn("vision_models"))
    own = rows[(rows["curve"] == "mit-b2") & (rows["policy"] == "all") & rows["place"].notna()].sort_values("place")
    assert own["d"].unique().tolist() == [64, 128, 320, 512]
    np.testing.assert_allclose(own["pair"], [one_pair(int(d)) for d in own["d"]], rtol=1e-4)


@pytest.mark.parametrize("name", ["drift_spearman", "drift_pearson"])
def test_p_values_are_those_of_the_associations(name, zoo, drawn):
    spec = drawn(name)
    rows, truth = rows_of(spec), associations(zoo)
    assert titles_of(spec) == ["drift_norm and mean_cosine", "drift_ratio and mean_cosine"]
    column = f"{name.removeprefix('drift_')}_p"
    for test, p, which in (("as published", column, truth["model"].notna()), ("differences, permuted", "p", truth["model"].notna())):
        own = np.sort(rows.loc[rows["test"] == test, "p"])
        np.testing.assert_allclose(own, np.sort(truth.loc[which, p]), rtol=1e-4)
    pooled = rows[rows["test"] == "pooled over the group"]
    np.testing.assert_allclose(np.sort(pooled["p"]), np.sort(truth.loc[truth["model"].isna(), "p"]), rtol=1e-4)
    assert rows["shown"].min() >= 1e-6
    assert 0.05 in rows.loc[rows["test"].isna(), "shown"].tolist()
    assert "not a valid test" in figures[name].caption


def test_rows_of_p_values_stand_below_their_group(drawn):
    spec = drawn("drift_spearman")
    layers = [layer for layer in spec["concat"][0]["layer"] if "layer" in layer]
    domain = layers[0]["layer"][0]["encoding"]["y"]["scale"]["domain"]
    assert domain == [
        *("Token-level models", "gpt2", "org/bert-base-uncased", "t5-base", "org/llama-30", "untrained:gpt2"),
        *("Character-level models", "canine-s", "byt5-small"),
        *("Speech models", "wav2vec2-base", "whisper-base", "hubert-large"),
        *("Vision Transformers", "org/vit-base-patch16-224", "mit-b2"),
        *("Convolutional networks", "resnet-50", "convnext-tiny"),
    ]


def test_few_layers_are_hollow(zoo):
    short = zoo[(zoo["model"] == "gpt2") & (zoo["layer"] < 8)]
    rows = rows_of(spec_of("drift_spearman", pd.concat([short, zoo[zoo["model"] == "t5-base"]])))
    solid = rows[rows["test"] == "differences, permuted"].groupby("row")["solid"].agg(["min", "max"])
    assert not solid.loc["gpt2"].any()
    assert solid.loc["t5-base"].all()


def test_isotropic_level_has_a_point_a_model_and_dimension(zoo, drawn):
    rows = rows_of(drawn("isotropic_level"))
    points = rows[rows["curve"].notna() & (rows["policy"] == "all")]
    tones = {name: tone for name, tone, _ in find_legend(drawn("isotropic_level"))}
    marks = {(row["group"], tones[row["curve"]]) for _, row in points.iterrows()}
    assert len(marks) == len(ZOO), "shape and colour together name a model"
    assert len(points) == sum(len(dims) for *_, dims in ZOO.values())
    own = zoo[(zoo["model"] == "t5-base") & (zoo["metric"] == "mean_cosine") & (zoo["kind"] == "hidden") & (zoo["policy"] == "all")]
    assert points.loc[points["curve"] == "t5-base", "value"].item() == pytest.approx(own["value"].mean(), rel=1e-4)
    level = rows[rows["curve"].isna() & rows["d"].notna()]
    np.testing.assert_allclose(level["value"], [one_pair(int(d)) for d in level["d"]])


def test_on_a_page_the_legend_is_the_pages(zoo, drawn):
    spec = drawn("token_models")
    for panel in split_panels(spec):
        text = json.dumps({key: value for key, value in panel.items() if key != "datasets"})
        assert '"symbolType"' not in text
        assert panel["width"] == "container"
    assert find_legend(figures["layer_profile"].draw(zoo, NONE).to_dict()) == []
