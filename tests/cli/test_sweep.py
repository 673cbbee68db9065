"""`isoscope sweep` as a user types it: what it prints, how it ends, what it refuses."""

import json
import shutil

import pytest
from safetensors.numpy import load_file, save_file

from tests.cli.calling import isoscope
from tests.cli.conftest import FAST

FEW = (*FAST, "--layers", 1, "--sample", 0, "--seq-len", 32)


@pytest.fixture(scope="module")
def steps(tmp_path_factory, bert):
    """A suite of two seeds and three steps; of each the first layer's biases differ."""
    root = tmp_path_factory.mktemp("suites") / "mine"
    for seed in (0, 1):
        for step in (0, 5, 9):
            folder = root / f"seed-{seed}" / f"step-{step}"
            shutil.copytree(bert, folder)
            weights = load_file(folder / "model.safetensors")
            weights["bert.encoder.layer.0.attention.self.query.weight"] += 0.01 * (step + 100 * seed)
            save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return root


def test_a_folder_of_checkpoints(steps, paragraphs, tmp_path):
    words = ("sweep", steps, "--steps", "0,9", "--seeds", "0", "--data", paragraphs, "--max-items", 9, *FEW)
    answer = isoscope(*words, "--out", tmp_path / "run").worked()
    assert answer.out == f"{tmp_path / 'run'}\n"
    assert answer.err == ""
    found = json.loads(isoscope(*words, "--out", tmp_path / "run", "--json").worked().out)
    cells = [cell for cell in found["cells"] if "experiment" not in cell["identity"]]
    assert [cell["columns"]["step"] for cell in cells] == [0, 9]
    assert {(cell["columns"]["model"], cell["columns"]["seed"], *cell["identity"]["taps"]) for cell in cells} == {
        ("mine", 0, "hidden", "attention")
    }
    assert found["faults"] == []


def test_a_step_that_is_not_there_is_told_and_the_exit_code_says_so(steps, paragraphs, tmp_path):
    words = ("sweep", steps, "--steps", "5,7", "--seeds", "1", "--data", paragraphs, "--max-items", 9, *FEW, "--out", tmp_path / "run")
    answer = isoscope(*words)
    assert answer.code == 1
    assert answer.out == f"{tmp_path / 'run'}\n"
    assert answer.err == "isoscope: note: mine, seed 1, step 7, was asked for and is not there.\n"


def test_an_audit_measures_nothing(steps, tmp_path):
    answer = isoscope("sweep", steps, "--audit-only", "--quiet", "--out", tmp_path / "run").worked()
    assert answer.out == "Nothing is wrong with these checkpoints.\n"
    spoilt = tmp_path / "spoilt"
    shutil.copytree(steps, spoilt)
    shutil.copy(spoilt / "seed-0" / "step-5" / "model.safetensors", spoilt / "seed-0" / "step-9" / "model.safetensors")
    shutil.rmtree(spoilt / "seed-1" / "step-0")
    answer = isoscope("sweep", spoilt, "--audit-only", "--quiet", "--out", tmp_path / "spoilt-run")
    assert answer.code == 1
    assert answer.out.splitlines() == [
        "spoilt, seed 0: the steps 5 and 9 hold the same weights, bit for bit: one was saved in the place of another.",
        "spoilt, seed 1: step 0 is missing, which other seeds have.",
    ]
    assert not list((tmp_path / "spoilt-run" / "cells").iterdir())
    isoscope("table", tmp_path / "spoilt-run").refused("holds no finished cell")


def test_bad_input_is_one_sentence(steps, paragraphs, tmp_path):
    out = ("--out", tmp_path / "run", *FAST)
    isoscope("sweep", tmp_path / "nowhere", *out).refused("neither a folder of checkpoints nor a pattern with {step}")
    isoscope("sweep", "org/name@step{step}", *out).refused("HF_HUB_OFFLINE", "give --steps")
    isoscope("sweep", steps, "--steps", "one", *out).refused("--steps takes numbers and ranges", "got 'one'")
    isoscope("sweep", steps, "--seeds", "7", *out).refused("none of the checkpoints")
    isoscope("sweep", steps, "--taps", "hiden", *out).refused("did you mean hidden?")
    isoscope("sweep", steps, "--data", tmp_path / "no.txt", *out).refused("no.txt")
    (tmp_path / "file").write_text("")
    isoscope("sweep", steps, "--data", paragraphs, "--out", tmp_path / "file", *FAST).refused("file")
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "audit.json").write_text("{")
    isoscope("sweep", steps, "--data", paragraphs, "--out", tmp_path / "damaged", *FAST).refused(
        "audit.json is damaged (it is no JSON); delete it"
    )
