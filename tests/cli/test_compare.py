"""isoscope compare, conventions and cite from the command line: tables that fit, whole JSON, exit codes, one sentence for a mistake."""

import json

import numpy as np
import pytest

import isoscope as library
from isoscope.studies.definitions.conventions import CONVENTIONS
from tests.cli.calling import isoscope
from tests.cli.conftest import FAST


@pytest.fixture(scope="module")
def tuned(tmp_path_factory, gpt2, paragraphs):
    """GPT-2 with another first layer, on the same text."""
    import shutil

    from safetensors.numpy import load_file, save_file

    folder = tmp_path_factory.mktemp("compare")
    shutil.copytree(gpt2, folder / "small-gpt2")
    arrays = load_file(folder / "small-gpt2" / "model.safetensors")
    name = next(name for name in arrays if name.endswith("h.1.mlp.c_proj.bias"))
    arrays[name] = arrays[name] + 1.0
    save_file(arrays, folder / "small-gpt2" / "model.safetensors", metadata={"format": "pt"})
    isoscope("measure", folder / "small-gpt2", "--data", paragraphs, "--out", folder / "run", *FAST).worked()
    return folder / "run"


def test_a_run_against_itself_passes(good_run):
    answer = isoscope("compare", good_run, good_run, "--fail-over", "0").worked()
    assert "small-bert: between_cosine is the same in all of" in answer.out
    assert "No difference is clearly larger than 0." in answer.out
    assert max(map(len, answer.out.splitlines())) <= 100


def test_what_moved_is_told_and_fails_the_build(good_run, tuned):
    answer = isoscope("compare", good_run, tuned, "--metric", "between_cosine", "--fail-over", "0.002")
    assert answer.code == 1
    assert answer.err == ""
    told = json.loads(isoscope("compare", good_run, tuned, "--metric", "between_cosine", "--fail-over", "0.002", "--json").out)
    rows = {(row["kind"], row["layer"]): row for row in told["rows"]}
    assert {row["how"] for row in told["rows"]} == {"paired"}
    assert rows["hidden", 0]["difference"] == rows["hidden", 1]["difference"] == 0
    assert rows["hidden", 2]["moved"]
    assert {(row["kind"], row["layer"]) for row in told["over"]} <= {("hidden", 2), ("final", 3)}
    assert told["over"]
    table = [library.open(run).table("between_cosine", "all") for run in (good_run, tuned)]
    values = [t[(t["model"] == "small-gpt2") & (t["kind"] == "hidden") & (t["layer"] == 2)]["value"].iloc[0] for t in table]
    assert rows["hidden", 2]["difference"] == pytest.approx(values[1] - values[0], rel=1e-12)
    assert isoscope("compare", good_run, tuned, "--metric", "between_cosine", "--fail-over", "0.99").code == 0


def test_models_of_one_run(good_run):
    told = json.loads(isoscope("compare", good_run, good_run, "--model", "small-gpt2=small-gpt2", "--json").worked().out)
    assert {row["model_b"] for row in told["rows"]} == {"small-gpt2"}
    assert {row["metric"] for row in told["rows"]} == {"between_cosine", "top_share", "effective_rank/d"}


def test_mistakes_of_compare_are_one_sentence(good_run, tuned, tmp_path):
    isoscope("compare", good_run, tmp_path / "none").refused("There is no run at")
    isoscope("compare", good_run, tuned, "--metric", "mean_cosin").refused("did you mean mean_cosine?")
    isoscope("compare", good_run, tuned, "--policy", "bodi").refused("'bodi'", "did you mean body?")
    isoscope("compare", good_run, tuned, "--model", "small-gpt2").refused("--model takes two names")
    isoscope("compare", good_run, tuned, "--model", "small-gtp2=small-gpt2").refused("did you mean small-gpt2?")
    isoscope("compare", good_run, tuned, "--model", "small-bert=small-gpt2").refused("no row of between_cosine")


def test_conventions_of_a_run(good_run):
    shown = isoscope("compare-definitions", good_run).worked().out
    assert max(map(len, shown.splitlines())) <= 110
    for word in ("small-bert · encoder", "ethayarajh", "razzhigaev", "Left open:"):
        assert word in shown
    rows = json.loads(isoscope("compare-definitions", good_run, "--convention", "godey2024", "--json").worked().out)
    assert {row["metric"] for row in rows} == {"mean_cosine@godey2024", "drift@godey2024"}
    table = isoscope("table", good_run, "--convention", "godey2024", "--json").worked().out
    assert [row["value"] for row in json.loads(table)] == [row["value"] for row in rows]


def test_conventions_of_a_matrix(tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).standard_normal((400, 8)) + 1)
    shown = isoscope("compare-definitions", tmp_path / "x.npy").worked().out
    assert all(name in shown for name in CONVENTIONS)
    assert "400 points in 8 dimensions" in shown
    own = json.loads(isoscope("embeddings", tmp_path / "x.npy", "--convention", "rankme", "--json").worked().out)
    every = json.loads(isoscope("compare-definitions", tmp_path / "x.npy", "--json").worked().out)
    assert own["rankme@rankme"]["value"] == next(row["value"] for row in every if row["convention"] == "rankme")


def test_mistakes_of_conventions_are_one_sentence(good_run, tmp_path):
    np.save(tmp_path / "x.npy", np.ones((4, 2)))
    isoscope("compare-definitions", good_run, "--convention", "godey").refused("did you mean godey2024?")
    isoscope("table", good_run, "--convention", "rankme", "--policy", "all").refused("leave out --metric, --policy and --series")
    isoscope("embeddings", tmp_path / "x.npy", "--convention", "rankme", "--metric", "rankme").refused("leave out --metric")
    isoscope("compare-definitions", tmp_path / "nothing").refused("There is no run at")
