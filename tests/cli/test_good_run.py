"""What the command line gives when all is well: numbers that agree with brute force and with each other."""

import io
import json
import re

import numpy as np
import pandas as pd
import pytest

from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS
from tests.cli.calling import isoscope
from tests.cli.conftest import FAST


def strict(text):
    """JSON as jq reads it: without NaN and Infinity."""

    def never(word):
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=never)


def csv(answer):
    return pd.read_csv(io.StringIO(answer.worked().out))


def test_measure_names_the_run_and_its_cells(good_run, bert, gpt2, paragraphs):
    words = ("measure", bert, gpt2, "--data", paragraphs, "--out", good_run)
    again = isoscope(*words).worked()
    assert again.out == f"{good_run}\n"
    assert [line.partition(" (")[0] for line in again.err.splitlines()] == [
        "small-bert: already measured",
        "small-gpt2: already measured",
    ]
    answer = isoscope(*words, "--json", "-q").worked()
    assert answer.err == ""
    found = strict(answer.out)
    assert found["run"] == str(good_run)
    cells = {cell["columns"]["model"]: cell for cell in found["cells"]}
    assert set(cells) == {"small-bert", "small-gpt2"}
    words = sum(len(paragraph.split()) for paragraph in paragraphs.read_text().split("\n\n"))
    assert cells["small-gpt2"]["spec"]["tokens"] == words
    assert cells["small-bert"]["spec"]["tokens"] == words + 2 * 60
    assert cells["small-bert"]["spec"]["documents"] == 60


def test_the_table_in_every_format(good_run, tmp_path):
    table = csv(isoscope("table", good_run))
    assert list(table.columns) == list(TABLE_COLUMNS)
    assert set(table["policy"]) == {"all"}
    assert not table.duplicated(["model", "stack", "layer", "metric"]).any()  # the state after the final norm has a layer of its own
    rows = strict(isoscope("table", good_run, "--json").worked().out)
    assert len(rows) == len(table) > 150
    every = csv(isoscope("table", good_run, "--policy", "every"))
    assert not every.duplicated(["model", "stack", "kind", "layer", "policy", "metric"]).any()
    assert len(every) > len(table) == every["policy"].eq("all").sum()
    isoscope("table", good_run, "--format", "parquet", "--out", tmp_path / "t.parquet").worked()
    stored = pd.read_parquet(tmp_path / "t.parquet")
    np.testing.assert_array_equal(stored["value"], table["value"])
    np.testing.assert_array_equal(stored["value"].astype("float64"), [np.nan if row["value"] is None else row["value"] for row in rows])


def test_the_table_holds_what_numpy_computes(good_run, gpt2):
    """The static input embedding is a matrix whose numbers can be had without any of isoscope."""
    from safetensors.numpy import load_file

    x = load_file(gpt2 / "model.safetensors")["transformer.wte.weight"].astype(np.float64)
    u = x / np.linalg.norm(x, axis=1, keepdims=True)
    n = len(x)
    cosine = (np.square(u.sum(0)).sum() - n) / (n * (n - 1))
    table = csv(isoscope("table", good_run, "--metric", "mean_cosine", "--metric", "mean_norm", "--policy", "all"))
    found = table[(table["model"] == "small-gpt2") & (table["kind"] == "input_embedding")].set_index("metric")
    assert set(table["metric"]) == {"mean_cosine", "mean_norm"}
    assert set(table["policy"]) == {"all"}
    assert found.loc["mean_cosine", "value"] == pytest.approx(cosine, abs=1e-7)
    assert found.loc["mean_norm", "value"] == pytest.approx(np.linalg.norm(x, axis=1).mean(), rel=1e-6)
    assert found[["n", "d"]].to_numpy().tolist() == [[80, 32]] * 2


def test_the_series(good_run):
    series = csv(isoscope("table", good_run, "--series"))
    assert list(series.columns) == list(SERIES_COLUMNS)
    spectrum = series.query("name == 'spectrum' and model == 'small-bert' and kind == 'hidden' and layer == 2 and policy == 'all'")
    assert len(spectrum) == 32
    assert (np.diff(spectrum.sort_values("x")["y"]) <= 0).all()


def test_merged_shards_equal_one_pass(good_run, shards, tmp_path):
    out = tmp_path / "merged"
    answer = isoscope("merge", shards("1/2"), shards("2/2"), "--out", out, "--json").worked()
    assert [cell["columns"]["model"] for cell in strict(answer.out)["cells"]] == ["small-bert"]
    key = ["stack", "kind", "layer", "policy", "metric"]
    both = [csv(isoscope("table", run, "--policy", "every")).query("model == 'small-bert'") for run in (good_run, out)]
    whole, merged = (table.fillna({"layer": -1}).set_index(key).sort_index() for table in both)
    assert list(whole.index) == list(merged.index)
    assert len(merged) > 150
    np.testing.assert_array_equal(merged["n"], whole["n"])
    # The last singular value of these layers is rounding, whose root rankme takes, and neighbours nearly as far as each other have ratios
    # whose logarithm is; all other numbers agree much more closely.
    loose = whole.index.get_level_values("metric").isin(["rankme", "two_nn"])
    for column in ("value", "low", "high", "null", "null_sd"):
        np.testing.assert_allclose(merged[column][~loose], whole[column][~loose], rtol=1e-6, atol=1e-7, err_msg=column)
        np.testing.assert_allclose(merged[column][loose], whole[column][loose], rtol=2e-5, err_msg=column)


def test_one_matrix(tmp_path):
    x = np.random.default_rng(0).standard_normal((200, 6)) + 1
    np.save(tmp_path / "x.npy", x)
    answer = isoscope("embeddings", tmp_path / "x.npy", "--json", "-q").worked()
    found = strict(answer.out)
    eigenvalues = np.linalg.eigvalsh(np.cov(x.T))
    assert answer.err == ""
    assert found["participation_ratio"]["value"] == pytest.approx(eigenvalues.sum() ** 2 / np.square(eigenvalues).sum(), rel=1e-9)
    assert found["drift_norm"]["value"] == pytest.approx((x @ x.T)[~np.eye(200, dtype=bool)].mean() ** 0.5, rel=1e-9)
    assert (found["drift_norm"]["n"], found["drift_norm"]["d"]) == (200, 6)
    shown = isoscope("embeddings", tmp_path / "x.npy", "-q").worked()
    assert shown.out.startswith(f"{tmp_path / 'x.npy'}: 200 points in 6 dimensions\n")
    assert all(
        re.search(rf"^ *{name} +[-0-9.e]+ +[-0-9.e]+ to [-0-9.e]+ ", shown.out, re.MULTILINE)
        for name in ("mean_cosine", "isoscore", "effective_rank")
    )


def test_the_report(good_run, tmp_path):
    page = tmp_path / "new" / "page.html"
    answer = isoscope("report", good_run, "--out", page, "--title", "A & [b]", "--json").worked()
    assert strict(answer.out) == {"page": str(page), "figures": []}
    text = page.read_text("utf-8")
    assert "<title>A &amp; [b]</title>" in text
    assert all(name in text for name in ("small-bert", "small-gpt2"))


@pytest.mark.parametrize(
    ("what", "name"), [("metrics", "mean_cosine"), ("families", "DeBERTa-v2"), ("sources", "text"), ("figures", "layer_profile")]
)
def test_list(what, name):
    rows = strict(isoscope("list", what, "--json").worked().out)
    assert name in [row["name"] for row in rows]
    shown = isoscope("list", what).worked().out
    assert all(row["name"] in shown for row in rows)


ODD = "[red]odd[/] \"n'a me\n{0} %s [x"


def test_odd_names_are_printed_as_they_are(tmp_path, model_copy, paragraphs):
    folder = model_copy(ODD.replace("/", "|"))
    text, out = tmp_path / "[bold]da\"ta'\n.txt", tmp_path / "[blue]o'ut\nx"
    text.write_bytes(paragraphs.read_bytes())
    measured = isoscope("measure", folder, "--data", text, "--out", out, "--layers", "0").worked()
    assert measured.out == f"{out}\n"
    assert f"{folder.name}: loading\n" in measured.err
    rows = strict(isoscope("table", out, "--metric", "mean_norm", "--policy", "all", "--json").worked().out)
    assert [row["model"] for row in rows] == [folder.name]
    assert json.loads(rows[0]["spec"])["data"] == text.name
    assert csv(isoscope("table", out, "--metric", "mean_norm", "--policy", "all"))["model"].tolist() == [folder.name]
    isoscope("measure", folder, "--data", text, "--out", out, "--seq-len", "99", *FAST).refused(
        f"{folder.name.replace(chr(10), ' ')} takes at most 64 tokens"
    )


@pytest.mark.parametrize("verb", [("table",), ("measure", "--data"), ("embeddings",), ("measure",)])
def test_odd_names_in_errors(tmp_path, bert, verb):
    words = (bert, *verb[1:]) if "--data" in verb else verb[1:]
    isoscope(verb[0], *words, tmp_path / ODD).refused("[red]odd[/]", "{0} %s [x")
