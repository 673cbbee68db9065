"""The training loop gives the same weights each time, whatever happens in between, and networks learn."""

import csv
import os
import signal
import sys

import pytest

from isoscope.core.errors import IsoscopeError
from isoscope.training.recipe import RECIPES
from isoscope.training.run_training import run_training
from tests.patience import run_process
from tests.training.small_trainings import SMALL, train_small, weights


def test_trained_twice_has_equal_checkpoints(corpus, tmp_path):
    first, second = (weights(train_small("causal-text", tmp_path / name, corpus, seeds="0-1")) for name in "ab")
    assert list(first) == ["step-0", "step-1", "step-10", "step-12", "step-2", "step-5"]
    assert first == second
    assert weights(tmp_path / "a", 1) != first


def test_stopped_and_resumed_has_equal_checkpoints(corpus, tmp_path):
    whole = weights(train_small("masked-text", tmp_path / "whole", corpus))
    train_small("masked-text", tmp_path / "cut", corpus, stop=7)
    assert "step-10" not in weights(tmp_path / "cut")
    assert (tmp_path / "cut" / "seed-0" / "resume.safetensors").exists()
    assert weights(train_small("masked-text", tmp_path / "cut", corpus)) == whole
    assert not (tmp_path / "cut" / "seed-0" / "resume.safetensors").exists()
    assert (tmp_path / "cut/seed-0/loss.csv").read_text() == (tmp_path / "whole/seed-0/loss.csv").read_text()


@pytest.mark.parametrize(
    "instant",
    [
        "kill_at(loop, 'learning_rate', 7)",  # between two steps
        "kill_at(pathlib.Path, 'replace', 1)",  # before the first file is put in its place
        "kill_at(pathlib.Path, 'replace', 6)",
    ],
)
def test_killed_and_resumed_has_equal_checkpoints(corpus, tmp_path, monkeypatch, instant):
    """The process kills itself at a chosen call, so the instant does not depend on how fast the machine is."""
    monkeypatch.setattr("isoscope.training.loop.SAVE_EVERY", 0.0)
    command = (
        "import os, pathlib, signal, isoscope.training.loop as loop; loop.SAVE_EVERY = 0.0\n"
        "from isoscope.training.run_training import run_training\n"
        "def kill_at(owner, name, call):\n"
        "    calls, real = iter(range(1, 10**9)), getattr(owner, name)\n"
        "    setattr(owner, name, lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL) if next(calls) == call else real(*a, **k))\n"
        f"{instant}\n"
        f"run_training('causal-text', {str(tmp_path / 'cut')!r}, {corpus!r}, threads=1, quiet=True, steps=60, **{SMALL!r})"
    )
    ended = run_process([sys.executable, "-c", command], env=os.environ | {"OMP_NUM_THREADS": "1"})
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert not (tmp_path / "cut/seed-0/step-60").exists()
    whole = weights(train_small("causal-text", tmp_path / "whole", corpus, steps=60))
    assert weights(train_small("causal-text", tmp_path / "cut", corpus, steps=60)) == whole


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_learns_from_the_embedded_data(name, tmp_path):
    steps = 200 if name == "speech" else 60  # its loss is that of the mean frame for the first fifty
    suite = run_training(name, tmp_path / name, threads=1, quiet=True, steps=steps, width=32, heads=1, layers=2, batch=8)
    held_out = [float(row["held_out"]) for row in csv.DictReader((suite / "seed-0/loss.csv").open()) if row["held_out"]]
    assert held_out[-1] < 0.95 * held_out[0]


def test_a_loss_of_nan_ends_the_training_and_keeps_its_checkpoints(corpus, tmp_path):
    with pytest.raises(IsoscopeError, match="lower --rate"):
        train_small("causal-text", tmp_path / "s", corpus, rate=1e30, steps=60)
    assert "step-0" in weights(tmp_path / "s")
