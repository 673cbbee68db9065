"""isoscope drift-test: the numbers are those of the statistics, and a mistake is one sentence."""

import json

import numpy as np
import pytest

import isoscope as library
from isoscope.core.table import SERIES_COLUMNS, make_table
from isoscope.core.wording import format_number
from isoscope.estimation.drift_test import association, associations
from tests.cli.calling import isoscope
from tests.figures.made_table import made_zoo
from tests.runs.packing import write_made_cell


@pytest.fixture(scope="module")
def zoo(tmp_path_factory):
    """A run of models of every group, of which only the rows were kept."""
    path = tmp_path_factory.mktemp("drift") / "zoo"
    table = made_zoo()
    for i, (model, rows) in enumerate(table.groupby("model", sort=False)):
        manifest = {"isoscope": "0", "created": f"{i:02}", "columns": {"model": model}, "spec": {}, "keep": "rows", "identity": {}}
        write_made_cell(path, f"cell{i}", manifest, rows.reset_index(drop=True), make_table([], SERIES_COLUMNS), None)
    return path


def test_json_holds_every_number(zoo):
    rows = json.loads(isoscope("drift-test", zoo, "--json").worked().out)
    table = made_zoo()
    truth = associations(table[table["policy"] == "all"])
    assert len(rows) == len(truth) == 2 * (14 + 5)
    for column in ("spearman_p", "pearson", "difference", "p", "low", "tau2"):
        np.testing.assert_array_equal([np.nan if row[column] is None else row[column] for row in rows], truth[column])
    assert [row["verdict"] for row in rows] == truth["verdict"].tolist()
    own = next(row for row in rows if row["model"] == "gpt2" and row["predictor"] == "drift_norm")
    hidden = table[(table["model"] == "gpt2") & (table["kind"] == "hidden") & (table["policy"] == "all")].sort_values("layer")
    x, y = (hidden.loc[hidden["metric"] == metric, "value"].to_numpy(float) for metric in ("drift_norm", "mean_cosine"))
    assert (own["layers"], own["spearman"], own["p"]) == (13, association(x, y).spearman, association(x, y).p)


def test_the_tables_fit_and_say_what_each_number_is(zoo):
    shown = isoscope("drift-test", zoo).worked().out
    tables = shown[: shown.index("As published, ρ")]
    assert max(map(len, tables.splitlines())) <= 100
    assert shown.count("fewer") == 2 * 3, "no word is cut off"
    assert shown.index("drift_norm and mean_cosine") < shown.index("drift_ratio and mean_cosine")
    for word in ("Token-level models", "Convolutional networks", "org/vit-base-patch16-224", "pooled over 4", "not a valid test"):
        assert word in " ".join(shown.split()) or word in shown, word
    found = library.open(zoo).associations()
    own = found[(found["model"] == "resnet-50") & (found["predictor"] == "drift_norm")].iloc[0]
    of_norm = shown[: shown.index("drift_ratio")].splitlines()
    published, permuted = (line.split() for line in of_norm if "resnet-50" in line)
    digits = {"spearman": 3, "spearman_p": 2, "pearson": 3, "pearson_p": 2}
    assert published == ["resnet-50", "17", *(format_number(own[name], digits=n) for name, n in digits.items())]
    assert permuted[:4] == ["resnet-50", "17", format_number(own["difference"]), format_number(own["p"], digits=2)]


def test_the_policy_is_the_readers(zoo):
    every, body = (json.loads(isoscope("drift-test", zoo, "--policy", policy, "--json").worked().out) for policy in ("all", "body"))
    assert {row["policy"] for row in body} == {"body"}
    assert [row["pearson"] for row in body] != [row["pearson"] for row in every]
    isoscope("drift-test", zoo, "--policy", "bodi").refused("'bodi'", "did you mean body?")


def test_real_models_of_few_layers_have_no_verdict(good_run):
    rows = json.loads(isoscope("drift-test", good_run, "--json").worked().out)
    shown = isoscope("drift-test", good_run).worked().out
    assert shown.count("no verdict: fewer than") == 2 * 3, "no word is cut off"
    models = [row for row in rows if row["model"]]
    assert {(row["model"], row["layers"]) for row in models} == {("small-bert", 3), ("small-gpt2", 3)}
    assert {row["verdict"] for row in models} == {"no verdict: fewer than 12 layers"}
    assert {row["verdict"] for row in rows if not row["model"]} == {"no verdict: fewer than 3 models of 12 layers"}


def test_a_run_without_layers_is_refused(tmp_path, zoo):
    table = made_zoo(["gpt2"]).assign(kind="input_embedding", layer=None)
    manifest = {"isoscope": "0", "created": "0", "columns": {"model": "gpt2"}, "spec": {}, "keep": "rows", "identity": {}}
    write_made_cell(tmp_path / "flat", "cell", manifest, table.astype({"layer": "Int64"}), make_table([], SERIES_COLUMNS), None)
    isoscope("drift-test", tmp_path / "flat").refused("no model with layers")
    isoscope("drift-test", tmp_path / "nothing").refused("There is no run at")
