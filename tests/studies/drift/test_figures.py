"""Drift and cosine: pairs of metrics, and the p-values of their association."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from isoscope.estimation.drift_test import associations
from isoscope.figures import figures
from tests.figures.made_table import SIX
from tests.figures.specs import draw_spec, list_rows, rows_of, titles_of


def test_drift_figure_pairs_the_two_numbers_of_one_site(tables):
    table, series = tables
    rows = list_rows(figures["drift_and_cosine"].draw(table, series).to_dict())
    row = next(r for r in rows if r.get("line") == SIX and r["kind"] == "hidden" and r["layer"] == 4 and r["policy"] == "body")
    own = table[(table["model"] == SIX) & (table["kind"] == "hidden") & (table["layer"] == 4) & (table["policy"] == "body")]
    for column, metric in (("cosine", "mean_cosine"), ("drift_ratio", "drift_ratio")):
        assert row[column] == own.loc[own["metric"] == metric, "value"].item()


@pytest.mark.parametrize("name", ["drift_spearman", "drift_pearson"])
def test_p_values_are_those_of_the_associations(name, zoo, zoo_spec):
    spec = zoo_spec(name)
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


def test_rows_of_p_values_stand_below_their_group(zoo_spec):
    spec = zoo_spec("drift_spearman")
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
    rows = rows_of(draw_spec("drift_spearman", pd.concat([short, zoo[zoo["model"] == "t5-base"]])))
    solid = rows[rows["test"] == "differences, permuted"].groupby("row")["solid"].agg(["min", "max"])
    assert not solid.loc["gpt2"].any()
    assert solid.loc["t5-base"].all()
