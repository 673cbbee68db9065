"""isoscope compare from the command line: tables that fit, whole JSON, exit codes, one sentence for a mistake."""

import json
import re

import pytest

import isoscope as library
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
    assert "small-bert: identical; " in answer.out
    assert "─" not in answer.out, "no table of zeros"
    assert "No difference is clearly larger than 0." in answer.out
    assert max(map(len, answer.out.splitlines())) <= 80
    assert "nan" not in answer.out


def test_what_moved_is_told_and_fails_the_build(good_run, tuned):
    answer = isoscope("compare", good_run, tuned, "--metric", "between_cosine", "--fail-over", "0.002")
    assert answer.code == 1
    assert answer.err.startswith("Next:\n  isoscope report ")
    assert max(map(len, answer.out.splitlines())) <= 80
    assert re.search(r"^ *2 .* up? *$|^ *2 .* down *$", answer.out, re.MULTILINE)
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
