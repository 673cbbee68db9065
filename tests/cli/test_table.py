"""Numbers and curves that are computed only where they are named, from what a run kept."""

import io

import numpy as np
import pandas as pd
import pytest

from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS
from isoscope.estimation.cloud import Cloud
from isoscope.metrics import gride
from isoscope.runs.results import Results
from tests.cli.calling import isoscope, read_csv, read_strict_json


def csv(*words):
    return pd.read_csv(io.StringIO(isoscope("table", *words).worked().out))


def test_a_series_on_request(good_run):
    found = csv(good_run, "--series", "--metric", "gride_scales")
    assert set(found["name"]) == {"gride_scales"}
    own = found.query("model == 'small-gpt2' and kind == 'hidden' and layer == 1 and policy == 'all'").sort_values("x")
    assert own["x"].tolist() == [1, 2, 4, 8, 16, 32, 64]
    assert (np.diff(own["weight"]) > 0).all()
    kept = Results(good_run).statistics("small-gpt2")
    statistics = next(statistics for site, statistics in kept.items() if (site.kind, site.layer) == ("hidden", 1))
    cloud = Cloud.of(statistics, "all")
    assert own.loc[own["x"] == 8, "y"].item() == pytest.approx(float(gride(cloud)), rel=1e-12)


def test_several_series_one_of_them_stored(good_run):
    found = csv(good_run, "--series", "--metric", "gride_scales", "--metric", "spectrum")
    stored = csv(good_run, "--series")
    assert set(found["name"]) == {"gride_scales", "spectrum"}
    assert (found["name"] == "spectrum").sum() == (stored["name"] == "spectrum").sum() > 0
    assert "gride_scales" not in set(stored["name"])


def test_the_table_in_every_format(good_run, tmp_path):
    table = read_csv(isoscope("table", good_run))
    assert list(table.columns) == [*(name for name in TABLE_COLUMNS if name != "spec"), "note", "cell"]
    assert set(table["cell"]) == {manifest["key"] for manifest in Results(good_run).manifests()}
    assert set(table["policy"]) == {"all"}
    assert not table.duplicated(["model", "stack", "layer", "metric"]).any()  # the state after the final norm has a layer of its own
    rows = read_strict_json(isoscope("table", good_run, "--json").worked().out)
    assert len(rows) == len(table) > 150
    every = read_csv(isoscope("table", good_run, "--policy", "every"))
    assert not every.duplicated(["model", "stack", "kind", "layer", "policy", "metric"]).any()
    assert len(every) > len(table) == every["policy"].eq("all").sum()
    isoscope("table", good_run, "--format", "parquet", "--out", tmp_path / "t.parquet").worked()
    stored = pd.read_parquet(tmp_path / "t.parquet")
    np.testing.assert_array_equal(stored["value"], table["value"])
    np.testing.assert_array_equal(stored["value"].astype("float64"), [np.nan if row["value"] is None else row["value"] for row in rows])


def test_a_file_of_another_kind_is_refused_and_not_filled_with_csv(good_run, tmp_path):
    isoscope("table", good_run, "--out", tmp_path / "t.xlsx").refused("--out must end in .csv, .json or .parquet; ", "t.xlsx ends in .xlsx")
    assert not (tmp_path / "t.xlsx").exists()
    isoscope("table", good_run, "--format", "csv", "--out", tmp_path / "t.txt").worked()
    assert (tmp_path / "t.txt").read_text().startswith("model,")


def test_the_table_holds_what_numpy_computes(good_run, gpt2):
    """The static input embedding is a matrix, so its numbers can be computed without isoscope."""
    from safetensors.numpy import load_file

    x = load_file(gpt2 / "model.safetensors")["transformer.wte.weight"].astype(np.float64)
    u = x / np.linalg.norm(x, axis=1, keepdims=True)
    n = len(x)
    cosine = (np.square(u.sum(0)).sum() - n) / (n * (n - 1))
    table = read_csv(isoscope("table", good_run, "--metric", "mean_cosine", "--metric", "mean_norm", "--policy", "all"))
    found = table[(table["model"] == "small-gpt2") & (table["kind"] == "input_embedding")].set_index("metric")
    assert set(table["metric"]) == {"mean_cosine", "mean_norm"}
    assert set(table["policy"]) == {"all"}
    assert found.loc["mean_cosine", "value"] == pytest.approx(cosine, abs=1e-7)
    assert found.loc["mean_norm", "value"] == pytest.approx(np.linalg.norm(x, axis=1).mean(), rel=1e-6)
    assert found[["n", "d"]].to_numpy().tolist() == [[80, 32]] * 2


def test_the_series(good_run):
    series = read_csv(isoscope("table", good_run, "--series"))
    assert list(series.columns) == list(SERIES_COLUMNS)
    spectrum = series.query("name == 'spectrum' and model == 'small-bert' and kind == 'hidden' and layer == 2 and policy == 'all'")
    assert len(spectrum) == 32
    assert (np.diff(spectrum.sort_values("x")["y"]) <= 0).all()


def test_the_wide_table_holds_the_values_of_the_long_one(good_run, tmp_path):
    isoscope("table", good_run, "--wide", "--out", tmp_path / "wide.csv").worked()
    wide, long = pd.read_csv(tmp_path / "wide.csv"), Results(good_run).table()
    assert len(wide) == len(long[["model", "stack", "kind", "layer"]].drop_duplicates())
    own = long[(long["model"] == "small-bert") & (long["kind"] == "hidden") & (long["layer"] == 1)].set_index("metric")["value"]
    row = wide[(wide["model"] == "small-bert") & (wide["kind"] == "hidden") & (wide["layer"] == 1)].iloc[0]
    assert row[own.index].to_numpy(float) == pytest.approx(own.to_numpy(float), nan_ok=True, rel=1e-12)
    isoscope("table", good_run, "--wide", "--series").refused("leave out --series and --convention")
