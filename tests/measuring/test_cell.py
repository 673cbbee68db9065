"""One cell from top to bottom: finished cells are never measured again, half-written ones never read, killed ones resumed."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

import isoscope
from isoscope.measuring.model_feeder import ModelFeeder
from isoscope.measuring.single_pass import Pass
from isoscope.runs.run import Run
from tests.measuring.test_measure import NUMBERS, equal


def test_a_finished_cell_is_never_computed_again(small_models, texts, tmp_path, monkeypatch):
    folder = str(small_models("gpt2"))
    first = isoscope.measure(folder, str(texts), tmp_path / "run", quiet=True).table(policy="every")
    monkeypatch.setattr(Pass, "__init__", lambda *_: pytest.fail("the model was loaded again"))
    equal(first, isoscope.measure(folder, str(texts), tmp_path / "run", quiet=True, batch_size=2).table(policy="every"), rel=0, absolute=0)


def test_a_half_written_cell_is_never_read(small_models, texts, tmp_path):
    folder = str(small_models("gpt2"))
    isoscope.measure(folder, str(texts), tmp_path / "run", quiet=True)
    cell = Run(tmp_path / "run").cells()[0].folder
    (cell / "manifest.json").unlink()
    with pytest.raises(isoscope.IsoscopeError, match="no finished cell"):
        isoscope.open(tmp_path / "run")
    assert len(isoscope.measure(folder, str(texts), tmp_path / "run", quiet=True).table(policy="every")) > 100


@pytest.mark.parametrize("keep", ["rows", "sums", "all"])
def test_keep_says_what_is_stored(small_models, texts, tmp_path, keep):
    results = isoscope.measure(str(small_models("gpt2")), str(texts), tmp_path / "run", quiet=True, store=keep)
    cell = results.run.cells()[0]
    assert cell.has_statistics == (keep != "rows")
    if cell.has_statistics:
        assert all((s.sample is not None) == (keep == "all") for s in cell.statistics().values())
    assert len(results.table("top_share")) == 6  # the input table, layers 0 to 3, and the state after the final norm


@pytest.mark.parametrize("times", [1, pytest.param(10, marks=pytest.mark.slow)])
def test_killed_at_random_instants(times, small_models, texts, tmp_path):
    """kill -9 whenever it likes; then the same command gives the table of an undisturbed run."""
    folder, out = str(small_models("bert")), tmp_path / "run"
    options = {"batch_size": 1, "save_every": 0.0}
    expected = isoscope.measure([folder, f"untrained:{folder}"], str(texts), tmp_path / "whole", quiet=True, **options).table(
        policy="every"
    )
    code = (
        f"import isoscope; isoscope.measure({[folder, 'untrained:' + folder]!r}, {str(texts)!r}, {str(out)!r}, quiet=True, **{options!r})"
    )
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    started = time.monotonic()
    subprocess.run([sys.executable, "-c", code.replace(str(out), str(tmp_path / "timed"))], check=True, env=environment)
    typical = time.monotonic() - started
    chance = random.Random(0)
    for _ in range(times):
        process = subprocess.Popen([sys.executable, "-c", code], env=environment)
        try:
            process.wait(chance.uniform(0.3, 1.0) * typical)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    equal(expected, isoscope.open(out).table(policy="every"), columns=NUMBERS)
    assert not [path for path in (out / "cells").iterdir() if not (path / "manifest.json").exists() and not path.name.startswith(".")]


def test_quiet_changes_only_what_is_printed(small_models, texts, tmp_path, monkeypatch, capsys):
    """The same forward passes: one that shows the sites, and one per batch."""
    forward, batches = ModelFeeder._forward, ModelFeeder._batch
    tables, counts = [], []
    for quiet in (False, True):
        passes, made = [], []
        monkeypatch.setattr(ModelFeeder, "_forward", lambda self, fed, seen=passes: seen.append(fed) or forward(self, fed))
        monkeypatch.setattr(ModelFeeder, "_batch", lambda self, *given, seen=made: seen.append(given) or batches(self, *given))
        tables.append(isoscope.measure(str(small_models("bert")), str(texts), tmp_path / str(quiet), quiet=quiet, max_items=20).table())
        counts.append((len(passes), len(made)))
        assert ("of memory at the peak" in capsys.readouterr().err) is not quiet
    assert counts[0] == counts[1]
    assert counts[0][0] == counts[0][1] + 1
    assert tables[0].drop(columns="spec").equals(tables[1].drop(columns="spec"))
