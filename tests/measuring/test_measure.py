"""Runs: other settings change nothing, finished cells are not measured again, and killed runs resume."""

import json

import numpy as np
import pandas as pd
import pytest

import isoscope
from isoscope.runs.run import Run

ORDER = ["model", "stack", "kind", "layer", "policy", "metric"]
NUMBERS = ["value", "low", "high", "n", "d", "null", "null_sd"]


NEAR = ["two_nn"]
"""A line through the logarithms of ratios near 1, whose last digits are those of the states: it moves several times as much as they do."""


def equal(one, two, *, rel=1e-6, absolute=1e-7, columns=("value",)):
    """Two tables with the same rows; their numbers agree to 1e-6 relative or 1e-7 absolute, those of `NEAR` to 1e-5."""
    one, two = (frame.sort_values(ORDER).reset_index(drop=True) for frame in (one, two))
    pd.testing.assert_frame_equal(one[[*ORDER, "n", "d"]], two[[*ORDER, "n", "d"]])
    for column in columns:
        a, b = one[column].to_numpy(float), two[column].to_numpy(float)
        allowed = np.where(one["metric"].isin(NEAR) & (rel > 0), np.maximum(rel, 1e-5), rel)
        close = np.abs(a - b) <= absolute + allowed * np.abs(b)
        close |= np.isnan(a) & np.isnan(b)
        assert close.all(), one[~close].assign(other=b[~close])[[*ORDER, column, "other"]].head(5).to_string()


@pytest.fixture(scope="module", params=["bert", "t5"])
def whole(request, small_models, texts, tmp_path_factory):
    """A model's folder and the table of one pass."""
    folder = str(small_models(request.param))
    results = isoscope.measure(folder, str(texts), tmp_path_factory.mktemp("whole") / "run", quiet=True, cosine_sd=True)
    return folder, results.table(policy="every")


@pytest.mark.parametrize("batch_size", [1, 3, 64])
def test_any_batch_size_gives_the_same_table(whole, texts, tmp_path, batch_size):
    folder, table = whole
    again = isoscope.measure(folder, str(texts), tmp_path / "run", quiet=True, cosine_sd=True, batch_size=batch_size).table(policy="every")
    equal(table, again)


@pytest.mark.parametrize("k", [2, 5])
def test_shards_merge_to_one_pass(whole, texts, tmp_path, k):
    """An item is never split between shards; the merged table is that of one pass, its key included."""
    folder, table = whole
    parts = [tmp_path / f"part{i}" for i in range(k)]
    for i, part in enumerate(parts):
        isoscope.measure(folder, str(texts), part, quiet=True, cosine_sd=True, shard=f"{i + 1}/{k}")
    merged = isoscope.merge(parts[::-1], tmp_path / "merged")
    equal(table, merged.table(policy="every"), columns=("value", "low", "high"))
    assert merged.manifests()[0]["key"] == json.loads(table["spec"].iloc[0])["cell"]


def test_max_tokens_cuts_the_source_before_it_is_divided(small_models, texts, tmp_path):
    folder = str(small_models("bert"))  # a causal model's first tokens are duplicates only as far as a processor rounds them alike
    whole = isoscope.measure(folder, str(texts), tmp_path / "whole", quiet=True, max_tokens=1500).table(policy="every")
    tokens = json.loads(whole["spec"].iloc[0])["tokens"]
    assert 1500 <= tokens < 1500 + 64
    parts = [isoscope.measure(folder, str(texts), tmp_path / f"{i}", quiet=True, max_tokens=1500, shard=f"{i}/3").path for i in (1, 2, 3)]
    equal(whole, isoscope.merge(parts, tmp_path / "merged").table(policy="every"))


def test_a_metric_that_was_not_asked_for_is_filled_in(small_models, texts, tmp_path):
    """Rows are a cache: take one metric out of them and the table still has it, the same, without a model."""
    folder = str(small_models("gpt2"))
    table = isoscope.measure(folder, str(texts), tmp_path / "run", quiet=True).table(policy="every")
    cell = Run(tmp_path / "run").cells()[0]
    rows = cell.rows()
    rows[rows["metric"] != "isoscore"].to_parquet(cell.folder / "rows.parquet", index=False)
    manifest = cell.manifest
    manifest["files"]["rows.parquet"]["bytes"] = (cell.folder / "rows.parquet").stat().st_size
    manifest["tried"].remove("isoscore")
    (cell.folder / "manifest.json").write_text(json.dumps(manifest), "utf-8")
    equal(table, isoscope.open(tmp_path / "run").table(policy="every"), rel=0, absolute=0, columns=NUMBERS)
    filled = isoscope.open(tmp_path / "run").table("isoscore", "body")
    assert set(filled["metric"]) == {"isoscore"}
    assert set(filled["policy"]) == {"body"}
