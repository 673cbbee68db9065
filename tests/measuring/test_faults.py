"""What can go wrong in the middle: no finished cell is lost or counted twice, what failed is listed, and the same command goes on."""

import os
import random
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

import isoscope
from isoscope.runs.run import Run
from isoscope.runs.writing import receive_cell
from tests.cli.calling import command
from tests.cli.calling import isoscope as call
from tests.measuring.sweeps import FEW, same
from tests.patience import HANG_LIMIT, wait_until

WORDS = ["--seq-len", 32, "--sample", 0, "--layers", 1, "--threads", 1, "-q"]


def children(pid):
    """The processes that this one has started."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def workers(pid):
    """Those of them that measure: not the one that looks after shared memory."""
    return [one for one in children(pid) if "spawn_main" in Path(f"/proc/{one}/cmdline").read_text().replace("\0", " ")]


def cells(run):
    return list(Path(run).glob("cells/[!.]*/manifest.json"))


@pytest.mark.slow
def test_a_process_that_is_killed_is_replaced_and_its_cell_measured_by_another(berts, text, expected, tmp_path):
    killed = []

    def kill():
        wait_until(lambda: cells(tmp_path / "run"), "a finished cell")
        killed.append(workers(os.getpid())[0])
        os.kill(killed[0], signal.SIGKILL)

    killing = threading.Thread(target=kill)
    killing.start()
    found = isoscope.sweep(str(berts), text, tmp_path / "run", processes=2, **FEW)
    killing.join()
    assert killed
    same(expected, found.table(policy="every"))


def test_what_failed_is_listed_and_the_same_command_goes_on(small_models, texts, tmp_path):
    """One of three models has a damaged file, as after a download that was cut off."""
    models = [tmp_path / name for name in ("bert", "gpt2", "opt")]
    for model in models:
        shutil.copytree(small_models(model.name), model)
    whole = (models[1] / "model.safetensors").read_bytes()
    (models[1] / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    words = ["measure", *models, "--data", texts, "--out", tmp_path / "run", "--layers", 1, "--sample", 0, "-q"]
    answer = call(*words)
    assert answer.code == 1
    assert "2 of 3 models were measured. Run the same command again to retry the other one." in answer.err
    assert f"{models[1]}: The weights of {models[1]} are damaged" in answer.err
    assert len(cells(tmp_path / "run")) == 2
    (models[1] / "model.safetensors").write_bytes(whole)
    first = {path: path.stat().st_mtime_ns for path in cells(tmp_path / "run")}
    call(*words).worked()
    assert len(cells(tmp_path / "run")) == 3
    assert all(path.stat().st_mtime_ns == at for path, at in first.items())


@pytest.mark.slow
def test_two_drivers_on_one_run_give_one_table(berts, text, expected, tmp_path):
    words = command("sweep", berts, "--data", text, *WORDS, "--processes", 1, "--out", tmp_path / "run")
    both = [subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [one.communicate(timeout=HANG_LIMIT)[1] for one in both]
    assert [one.returncode for one in both] == [0, 0], said
    results = isoscope.open(tmp_path / "run")
    keys = [one["key"] for one in results.manifests()]
    assert len(keys) == len(set(keys)) == 9  # eight checkpoints, and what they say together
    same(expected, results.table(policy="every"))
    assert not [path for path in (tmp_path / "run" / "cells").iterdir() if path.name.startswith(".")]


def test_a_cell_that_is_damaged_on_its_way_is_not_written(small_models, texts, tmp_path):
    import numpy as np

    results = isoscope.measure(str(small_models("bert")), str(texts), tmp_path / "run", layers="1", sample=0, quiet=True)
    (cell,) = results.run.cells()
    files = {path.name: np.fromfile(path, dtype=np.uint8) for path in cell.folder.iterdir()}
    folder = tmp_path / "other" / "cells" / cell.folder.name
    folder.parent.mkdir(parents=True)
    same(results.table(policy="every"), (receive_cell(folder, files), isoscope.open(tmp_path / "other").table(policy="every"))[1])
    files["rows.parquet"][9] ^= 1
    with pytest.raises(isoscope.IsoscopeError, match=r"rows.parquet of \w+ was damaged on its way"):
        receive_cell(folder.with_name("again"), files)
    assert not folder.with_name("again").exists()


@pytest.mark.slow
def test_a_sweep_that_meets_a_damaged_checkpoint_goes_on_once_it_is_whole(berts, text, expected, tmp_path):
    root = tmp_path / "berts"
    shutil.copytree(berts, root)
    bad = root / "seed-1" / "step-4" / "model.safetensors"
    whole = bad.read_bytes()
    bad.write_bytes(whole[:1000])
    words = ["sweep", root, "--data", text, *WORDS, "--out", tmp_path / "run"]
    answer = call(*words)
    assert answer.code == 1
    assert "berts, seed 1, step 4, was not measured" in answer.err
    bad.write_bytes(whole)
    call(*words).worked()
    same(expected, isoscope.open(tmp_path / "run").table(policy="every"))


@pytest.mark.slow
@pytest.mark.parametrize("instant", range(7))
def test_killed_at_random_instants(berts, text, expected, tmp_path, instant):
    """The driver, or one of its workers, is killed; the same command is run until it ends by itself."""
    chance = random.Random(instant)
    words = command("sweep", berts, "--data", text, *WORDS, "--processes", 2, "--out", tmp_path / "run")
    for attempt in range(6):
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if attempt < 1 + instant % 2:
            wait_until(lambda process=process: len(workers(process.pid)) == 2 or process.poll() is not None, "two workers")
            time.sleep(chance.uniform(0, 15))
            if process.poll() is None:
                victims = workers(process.pid)
                os.kill(process.pid if instant % 2 or not victims else chance.choice(victims), signal.SIGKILL)
        said = process.communicate(timeout=HANG_LIMIT)[1]
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL, said
    same(expected, isoscope.open(tmp_path / "run").table(policy="every"))
    assert len(Run(tmp_path / "run").cells()) == 9


@pytest.mark.slow
@pytest.mark.parametrize("instant", range(3))
def test_a_node_is_lost_at_a_random_instant(three_nodes, berts, text, expected, tmp_path, instant):
    cluster, others = three_nodes
    delay = random.Random(instant).uniform(0, 20)
    timer = threading.Timer(delay, lambda: cluster.remove_node(others[instant % 2], allow_graceful=False))
    timer.start()
    same(expected, isoscope.sweep(str(berts), text, tmp_path / "run", executor="ray", **FEW).table(policy="every"))
    timer.cancel()
