"""Sweeps: every checkpoint is measured as it would be alone, nothing is done or downloaded twice, faults are said and stop nothing."""

import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import time
import warnings
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from huggingface_hub import constants
from safetensors.torch import load_file, save_file

import isoscope
from isoscope.measuring import task
from isoscope.measuring.single_pass import Pass
from isoscope.measuring.sweep import audit
from isoscope.models.naming.model_name import resolve_model
from isoscope.runs.run import Run
from tests.cli.calling import command
from tests.measuring.test_measure import NUMBERS
from tests.models.suite_hub import SuiteHub, network, save, suite, training
from tests.patience import run_process, wait_until

FEW = {"seq_len": 32, "sample": 0, "layers": "1", "threads": 1}
STEPS = [0, 2, 4]
AHEAD = [2, 3, 3, 4, 4, 4]
"""Downloads begun when each checkpoint is measured. Step 0 of Pythia was there before, and step 4 has the weights of step 2."""
BERTS, PYTHIA = "org/multi-seed_{seed}-step_{step}k", "org/pythia@step{step}"
SORTED = ["model", "seed", "step", "stack", "kind", "layer", "head", "policy", "metric"]
FAULTS = [
    "org/multi, seed 1: step 2000 is missing, which other seeds have.",
    "org/pythia: the steps 2 and 4 hold the same weights, bit for bit: one was saved in the place of another.",
]


@pytest.fixture(scope="module")
def berts(tmp_path_factory):
    return suite(tmp_path_factory.mktemp("berts") / "berts", "bert", [0, 2], [0, 1])


@pytest.fixture(scope="module")
def served(berts, tmp_path_factory):
    """A hub with MultiBERTs that lack a step of seed 1, and a Pythia with two equal checkpoints."""
    root = tmp_path_factory.mktemp("pythia")
    revisions = {f"step{step}": save(model, root / f"step{step}", around=False) for step, model in training("neox", STEPS)}
    shutil.copy(root / "step2" / "model.safetensors", root / "step4" / "model.safetensors")
    (root / "step4" / "README.md").write_text("another commit")
    with SuiteHub() as found:
        for seed, step in ((0, 0), (0, 2), (1, 0)):
            found.add(BERTS.format(seed=seed, step=step), berts / f"seed-{seed}" / f"step-{step}")
        found.add("org/pythia", root / "step4", revisions)
        yield found


def come_to(hub, home, patch):
    """Have the client of this process ask this hub, with a cache of its own."""
    patch.setattr(constants, "HF_HUB_OFFLINE", False)
    for name, value in hub.environment(home).items():
        patch.delenv(name, raising=False) if value is None else patch.setenv(name, value)


@pytest.fixture
def hub(served, tmp_path, monkeypatch):
    come_to(served, tmp_path / "home", monkeypatch)
    served.requests.clear()
    return served


@pytest.fixture(scope="module")
def whole(served, text, tmp_path_factory):
    """Both suites in one go, with what was downloaded and held each time that a checkpoint was about to be measured."""
    root, ahead, measure_model = tmp_path_factory.mktemp("whole"), [], task.measure_model

    def spy(*given, **more):
        wait_until(lambda: len(served.weights_of()) >= AHEAD[len(ahead)] and not unfinished(root), "the next download")
        time.sleep(0.4)  # in which a download too many would begin
        ahead.append((len(served.weights_of()), len(cached(root))))
        measure_model(*given, **more)

    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", isoscope.IsoscopeWarning)
        come_to(served, root / "home", patch)
        mine = resolve_model("org/pythia@step0")
        served.requests.clear()
        patch.setattr(task, "measure_model", spy)
        results = isoscope.sweep([BERTS, PYTHIA], text, root / "run", delete=True, quiet=True, **FEW)
        said = [str(one.message) for one in warned if one.category is isoscope.IsoscopeWarning]
    return SimpleNamespace(results=results, said=said, ahead=ahead, mine=mine, root=root)


def unfinished(root):
    return list((root / "home").rglob("*.incomplete"))


def cached(root):
    return sorted(path.parents[2].name for path in (root / "home").rglob("*.safetensors"))


def places(results, model):
    """Seed (-1 where there is none) and step of all that was measured."""
    table = results.table("mean_cosine")
    found = table[table["model"] == model][["seed", "step"]].fillna(-1).drop_duplicates()
    return sorted((int(seed), int(step)) for seed, step in found.itertuples(index=False))


def measured(table):
    """The rows of checkpoints, without those that are derived from them."""
    return table[["weights" in json.loads(spec) for spec in table["spec"]]]


def same(one, two):
    """The same rows with the same numbers, bit for bit."""
    one, two = (frame.sort_values(SORTED).reset_index(drop=True)[[*SORTED, *NUMBERS]] for frame in (one, two))
    pd.testing.assert_frame_equal(one, two, check_exact=True, check_dtype=False)


def test_both_suites_are_measured_and_both_faults_reported(whole):
    assert places(whole.results, "org/multi") == [(0, 0), (0, 2000), (1, 0)]
    assert places(whole.results, "org/pythia") == [(-1, 0), (-1, 2), (-1, 4)]
    assert whole.said == FAULTS
    kept = json.loads((whole.results.path / "audit.json").read_text())
    assert [fault for one in kept["suites"].values() for fault in one["faults"]] == FAULTS
    norm = whole.results.table("mean_norm", "all").query("model == 'org/pythia' and kind == 'hidden'").set_index("step")["value"]
    assert norm[2] == norm[4] != norm[0]
    derived = [one["identity"]["model"] for one in whole.results.manifests() if one["identity"].get("experiment") == "dynamics"]
    assert sorted(derived) == ["org/multi", "org/pythia"]


def test_one_is_downloaded_ahead_and_only_what_was_downloaded_is_deleted(whole):
    assert [weights for weights, _ in whole.ahead] == AHEAD
    assert max(held for _, held in whole.ahead) == 3  # the user's own, the one in use and the next
    assert cached(whole.root) == ["models--org--pythia"]
    assert whole.mine.folder.exists()


def test_what_is_done_is_neither_measured_nor_downloaded_again(whole, hub, text, monkeypatch):
    monkeypatch.setattr(Pass, "__init__", lambda *_: pytest.fail("a model was loaded again"))
    table = whole.results.table(policy="every")
    with pytest.warns(isoscope.IsoscopeWarning) as warned:
        again = isoscope.sweep([BERTS, PYTHIA], text, whole.results.path, quiet=True, **FEW)
    assert [str(one.message) for one in warned] == FAULTS
    assert not hub.fetched()
    same(table, again.table(policy="every"))


def test_interrupted_in_the_middle_it_goes_on_to_the_same_table(whole, hub, text, tmp_path, monkeypatch):
    """Ctrl-C before the second checkpoint; the first is neither measured nor downloaded again."""
    measure_model, seen = task.measure_model, []

    def interrupted(run, reference, *given, **more):
        seen.append(reference.step)
        if len(seen) == 2:
            raise KeyboardInterrupt
        measure_model(run, reference, *given, **more)

    monkeypatch.setattr(task, "measure_model", interrupted)
    with pytest.raises(KeyboardInterrupt):
        isoscope.sweep(PYTHIA, text, tmp_path / "run", steps="0,2", delete=True, quiet=True, **FEW)
    (done,) = {cell.manifest["columns"]["revision"] for cell in Run(tmp_path / "run").cells()}
    hub.requests.clear()
    results = isoscope.sweep(PYTHIA, text, tmp_path / "run", steps="0,2", delete=True, quiet=True, **FEW)
    assert seen == [0, 2, 2]
    assert not any(done in path for path in hub.weights_of())
    assert cached(tmp_path) == []
    same(measured(results.table(policy="every")), measured(whole.results.table(policy="every")).query("model == 'org/pythia' and step < 4"))


def test_two_processes_give_the_table_of_one_and_leave_out_the_same(berts, text, tmp_path):
    root = tmp_path / "suite"
    for step, seed in ((0, 0), (1, 1), (2, 0), (3, 1)):
        shutil.copytree(berts / f"seed-{seed}" / f"step-{0 if step < 2 else 2}", root / f"step-{step}")
    weights = load_file(root / "step-1" / "model.safetensors")
    del weights["bert.encoder.layer.1.attention.self.query.weight"]
    save_file(weights, root / "step-1" / "model.safetensors", metadata={"format": "pt"})
    found, said = {}, {}
    for processes in (1, 2):
        with pytest.warns(isoscope.IsoscopeWarning) as warned:
            found[processes] = isoscope.sweep(str(root), text, tmp_path / str(processes), processes=processes, quiet=True, **FEW)
        said[processes] = [str(one.message) for one in warned]
    assert places(found[2], "suite") == [(-1, 0), (-1, 2), (-1, 3)]
    assert said[1] == said[2]
    assert len(said[1]) == 1
    same(found[1].table(policy="every"), found[2].table(policy="every"))
    assert not multiprocessing.active_children()


@pytest.mark.slow
def test_what_every_checkpoint_would_say_is_said_by_processes_too(berts, text, tmp_path):
    with pytest.raises(isoscope.IsoscopeError, match="device 'xpu' is not available"):
        isoscope.sweep(str(berts), text, tmp_path / "run", device="xpu", processes=2, quiet=True, **FEW)
    assert not Run(tmp_path / "run").cells()


def children(process):
    return [int(word) for word in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_killed_in_the_middle_it_goes_on_to_the_same_table(whole, hub, text, tmp_path, processes):
    """kill -9 of a real process; what was finished is neither measured nor downloaded again, and both faults are told."""
    few = ["--seq-len", 32, "--sample", 0, "--layers", 1, "--threads", 1, "--processes", processes]
    words = command("sweep", BERTS, PYTHIA, "--data", text, "--delete", *few, "--out", tmp_path / "run")
    environment = {name: value for name, value in {**os.environ, **hub.environment(tmp_path / "home")}.items() if value is not None}
    process = subprocess.Popen(words, env=environment, stderr=subprocess.DEVNULL)
    while len(list((tmp_path / "run").glob("cells/[!.]*/manifest.json"))) < 2:
        assert process.poll() is None
        time.sleep(0.005)
    others = children(process)
    assert (len(others) >= 2) is (processes == 2)
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in others), "the workers to end with their driver")
    done = {cell.manifest["columns"]["revision"] for cell in Run(tmp_path / "run").cells()}
    assert 2 <= len(done) < 6
    hub.requests.clear()
    ended = run_process(words, env=environment)
    assert ended.returncode == 1, ended.stderr
    assert [line for line in ended.stderr.splitlines() if "note:" in line] == [f"isoscope: note: {fault}" for fault in FAULTS]
    assert f"{len(done)} of 6 checkpoints are measured already." in ended.stderr
    assert not any(commit in path for path in hub.weights_of() for commit in done)
    assert cached(tmp_path) == []
    same(measured(isoscope.open(tmp_path / "run").table(policy="every")), measured(whole.results.table(policy="every")))


def test_each_checkpoint_of_a_folder_is_measured_as_it_would_be_alone(berts, whole, text, tmp_path, monkeypatch):
    results = isoscope.sweep(str(berts), text, tmp_path / "run", seeds="0", quiet=True, **FEW)
    table = results.table(policy="every")
    assert places(results, "berts") == [(0, 0), (0, 2)]
    assert json.loads((tmp_path / "run" / "audit.json").read_text())["suites"]["berts"]["faults"] == []
    alone = isoscope.measure(str(berts / "seed-0" / "step-2"), text, tmp_path / "alone", quiet=True, taps="hidden,attention", **FEW).table(
        policy="every"
    )
    same(measured(table).query("step == 2").assign(model="", seed=0, step=0), alone.assign(model="", seed=0, step=0))
    hub = measured(whole.results.table(policy="every")).query("model == 'org/multi' and seed == 0")
    same(measured(table).assign(model=""), hub.assign(model="", step=hub["step"] // 1000))
    monkeypatch.setattr(Pass, "__init__", lambda *_: pytest.fail("a model was loaded again"))
    same(table, isoscope.sweep(str(berts), text, tmp_path / "run", seeds="0", quiet=True, **FEW).table(policy="every"))


def test_bad_checkpoints_are_named_and_stop_nothing(berts, text, tmp_path):
    """A shard that is not there, weights that are not there, and matrices that are those of step 0."""
    root = tmp_path / "suite"
    for step in (0, 1, 2, 4):
        shutil.copytree(berts / "seed-0" / "step-0", root / f"step-{step}")
    network("bert").save_pretrained(root / "step-1", max_shard_size="20KB")
    (root / "step-1" / "model.safetensors").unlink()
    shard = sorted((root / "step-1").glob("model-*.safetensors"))[0]
    shard.unlink()
    weights = load_file(root / "step-2" / "model.safetensors")
    del weights["bert.encoder.layer.1.attention.self.query.weight"]
    save_file(weights, root / "step-2" / "model.safetensors", metadata={"format": "pt"})
    weights = load_file(root / "step-4" / "model.safetensors")
    weights["bert.encoder.layer.0.output.dense.bias"] += 1
    save_file(weights, root / "step-4" / "model.safetensors", metadata={"format": "pt"})
    with pytest.warns(isoscope.IsoscopeWarning) as warned:
        results = isoscope.sweep(str(root), text, tmp_path / "run", quiet=True, **FEW)
    said = [str(one.message) for one in warned]
    assert places(results, "suite") == [(-1, 0), (-1, 4)]
    assert len(said) == 3
    assert said[0].startswith(f"suite, step 1, was not measured: {root / 'step-1'} lacks {shard.name}, which")
    assert "suite, step 2, was not measured" in said[1]
    assert "1 missing and initialised at random (bert.encoder.layer.1.attention.self.query.weight)" in said[1]
    assert said[2] == "suite, step 4: every matrix is that of step 0, bit for bit: re-initialised, or never trained."
    assert audit(str(root), tmp_path / "audit", quiet=True) == said
    assert not Run(tmp_path / "audit").cells()


def test_a_revision_that_the_hub_does_not_have_is_left_out(hub, text, tmp_path):
    with pytest.warns(isoscope.IsoscopeWarning, match="org/pythia, step 7, was not measured: The hub has no revision step7 of org/pythia"):
        results = isoscope.sweep(PYTHIA, text, tmp_path / "run", steps="0,7", quiet=True, **FEW)
    assert places(results, "org/pythia") == [(-1, 0)]


def test_what_every_checkpoint_would_say_is_said_at_once(hub, berts, text, tmp_path):
    with pytest.raises(isoscope.IsoscopeError, match="device 'xpu' is not available"):
        isoscope.sweep(str(berts), text, tmp_path / "run", device="xpu", quiet=True, **FEW)
    with pytest.raises(isoscope.IsoscopeError, match="No checkpoint could be measured: The hub has no revision step7"):
        isoscope.sweep(PYTHIA, text, tmp_path / "none", steps="7", quiet=True, **FEW)
    hub.down = 503
    try:
        with pytest.raises(isoscope.IsoscopeError, match="it answered 503; try again later"):
            isoscope.sweep(PYTHIA, text, tmp_path / "down", steps="0,2", quiet=True, **FEW)
    finally:
        hub.down = None
