"""`isoscope train`: the same weights each time, whatever happens in between, and networks that learn."""

import csv
import os
import signal
import sys

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tests.patience import run_process

from isoscope.core.errors import IsoscopeError
from isoscope.engine.training import run_training
from isoscope.sources import open_source
from isoscope.training.data import MASK, data_for
from isoscope.training.loop import network_for
from isoscope.training.recipe import RECIPES, grid, recipe

SMALL = {"width": 32, "heads": 1, "layers": 2, "length": 32, "batch": 4}
TEXT = "It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of foolishness. "


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "corpus.txt"
    path.write_text("\n\n".join(f"{TEXT}{i}" for i in range(60)), "utf-8")
    return str(path)


def weights(suite, seed=0):
    return {path.parent.name: path.read_bytes() for path in sorted((suite / f"seed-{seed}").glob("step-*/model.safetensors"))}


def small(name, out, data, **more):
    return run_training(name, out, data, threads=1, quiet=True, **(SMALL | {"steps": 12} | more))


def test_trained_twice_has_equal_checkpoints(corpus, tmp_path):
    first, second = (weights(small("causal-text", tmp_path / name, corpus, seeds="0-1")) for name in "ab")
    assert list(first) == ["step-0", "step-1", "step-10", "step-12", "step-2", "step-5"]
    assert first == second
    assert weights(tmp_path / "a", 1) != first


def test_stopped_and_resumed_has_equal_checkpoints(corpus, tmp_path):
    whole = weights(small("masked-text", tmp_path / "whole", corpus))
    small("masked-text", tmp_path / "cut", corpus, stop=7)
    assert "step-10" not in weights(tmp_path / "cut")
    assert (tmp_path / "cut" / "seed-0" / "resume.safetensors").exists()
    assert weights(small("masked-text", tmp_path / "cut", corpus)) == whole
    assert not (tmp_path / "cut" / "seed-0" / "resume.safetensors").exists()
    assert (tmp_path / "cut/seed-0/loss.csv").read_text() == (tmp_path / "whole/seed-0/loss.csv").read_text()


@pytest.mark.parametrize(
    "instant",
    [
        "kill_at(loop, 'rate_at', 7)",  # between two steps
        "kill_at(pathlib.Path, 'replace', 1)",  # before the first file is put in its place
        "kill_at(pathlib.Path, 'replace', 6)",
    ],
)
def test_killed_and_run_again_has_equal_checkpoints(corpus, tmp_path, monkeypatch, instant):
    """The process kills itself at a chosen call, so the instant does not depend on how fast the machine is."""
    monkeypatch.setattr("isoscope.training.loop.SAVE_EVERY", 0.0)
    command = (
        "import os, pathlib, signal, isoscope.training.loop as loop; loop.SAVE_EVERY = 0.0\n"
        "from isoscope.engine.training import run_training\n"
        "def kill_at(owner, name, call):\n"
        "    calls, real = iter(range(1, 10**9)), getattr(owner, name)\n"
        "    setattr(owner, name, lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL) if next(calls) == call else real(*a, **k))\n"
        f"{instant}\n"
        f"run_training('causal-text', {str(tmp_path / 'cut')!r}, {corpus!r}, threads=1, quiet=True, steps=60, **{SMALL!r})"
    )
    ended = run_process([sys.executable, "-c", command], env=os.environ | {"OMP_NUM_THREADS": "1"})
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert not (tmp_path / "cut/seed-0/step-60").exists()
    whole = weights(small("causal-text", tmp_path / "whole", corpus, steps=60))
    assert weights(small("causal-text", tmp_path / "cut", corpus, steps=60)) == whole


def test_twins_begin_with_the_same_weights_and_windows(corpus):
    texts = [recipe(name).with_(**SMALL) for name in ("causal-text", "masked-text", "causal-masked-text")]
    made = [data_for(one, open_source(corpus)) for one in texts]
    states = [network_for(one, data, 3).state_dict() for one, data in zip(texts, made, strict=True)]
    for name, tensor in states[0].items():
        assert all(torch.equal(tensor, other[name]) for other in states[1:]), name
    shown = [data.batch(np.random.default_rng([3, 1]))[0]["input_ids"] for data in made]
    hidden = shown[1] != shown[0]
    assert torch.equal(shown[1], shown[2])
    assert 0.08 < hidden.float().mean() < 0.3
    assert (shown[1][hidden] == made[1].tokenizer.convert_tokens_to_ids(MASK)).float().mean() > 0.5


def test_a_causal_network_does_not_see_what_comes_next(corpus):
    for name, sees in (("causal-text", False), ("masked-text", True)):
        one = recipe(name).with_(**SMALL)
        data = data_for(one, open_source(corpus))
        network = network_for(one, data, 0)
        ids = data.batch(np.random.default_rng(0))[0]["input_ids"]
        changed = ids.clone()
        changed[:, 20:] = 5
        before, after = (network(input_ids=given).logits for given in (ids, changed))
        assert torch.allclose(before[:, :20], after[:, :20], atol=1e-6) is not sees


def test_items_that_are_held_out_are_not_trained_on(tmp_path):
    (tmp_path / "t.txt").write_text("\n\n".join(("z" * 50 if i % 20 == 0 else "abcd" * 12) for i in range(60)), "utf-8")
    data = data_for(recipe("causal-text").with_(**SMALL), open_source(str(tmp_path / "t.txt")))
    z = data.tokenizer.convert_tokens_to_ids("z")
    drawn = [data.batch(np.random.default_rng(i))[0]["input_ids"] for i in range(50)]
    assert not any((ids == z).any() for ids in drawn)
    assert (data.batch(np.random.default_rng(0), held_out=True)[0]["input_ids"] == z).any()


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_learns_from_what_comes_with_isoscope(name, tmp_path):
    steps = 200 if name == "speech" else 60  # its loss is that of the mean frame for the first fifty
    suite = run_training(name, tmp_path / name, threads=1, quiet=True, steps=steps, width=32, heads=1, layers=2, batch=8)
    held_out = [float(row["held_out"]) for row in csv.DictReader((suite / "seed-0/loss.csv").open()) if row["held_out"]]
    assert held_out[-1] < 0.95 * held_out[0]


@pytest.mark.parametrize(("norm", "level"), [("post", "characters"), ("pre", "subwords")])
def test_choices_reach_the_network(norm, level, tmp_path):
    suite = run_training("causal-text", tmp_path / "s", threads=1, quiet=True, steps=1, norm=norm, level=level, **SMALL)
    state = load_file(suite / "seed-0/step-1/model.safetensors")
    assert ("first.weight" in state) == (norm == "post")
    assert (len(state["embedding.weight"]) > 1024) == (level == "subwords")


def test_another_recipe_does_not_go_into_the_same_suite(corpus, tmp_path):
    small("causal-text", tmp_path / "s", corpus, steps=1)
    with pytest.raises(IsoscopeError, match="was trained with name = causal-text, not masked-text"):
        small("masked-text", tmp_path / "s", corpus, steps=1)


@pytest.mark.parametrize("text", ["{", "[1]", "[" * 100_000, "\x00"])
def test_a_suite_whose_description_is_damaged_is_not_mixed_with(corpus, tmp_path, text):
    small("causal-text", tmp_path / "s", corpus, steps=1)
    (tmp_path / "s" / "training.json").write_text(text)
    with pytest.raises(IsoscopeError, match=r"(is damaged|was trained with)"):
        small("causal-text", tmp_path / "s", corpus, steps=2)


@pytest.mark.parametrize("damage", ["no step", "losses", "a weight", "a moment", "bytes"])
def test_a_state_that_does_not_fit_is_said_in_one_sentence(corpus, tmp_path, damage):
    import torch
    from safetensors.torch import save_file

    from isoscope.training.checkpoints import Checkpoints

    network = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(network.parameters())
    network(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    kept = Checkpoints(tmp_path, 0)
    kept.save(4, network, optimizer, [(1, 0.5, float("nan")), (4, 0.25, 0.5)])
    step, losses = kept.resume(network, optimizer)
    assert (step, len(losses), losses[1]) == (4, 2, (4, 0.25, 0.5))
    path = tmp_path / "seed-0" / "resume.safetensors"
    state = load_file(path)
    about = {"step": "4", "losses": "[[1, 0.5, NaN]]"}
    if damage == "no step":
        del about["step"]
    elif damage == "losses":
        about["losses"] = "[[1]]"
    elif damage == "a weight":
        state["weights/weight"] = torch.zeros(5)
    elif damage == "a moment":
        state["exp_avg/weight"] = torch.zeros(5)
    save_file(state, path, metadata=about)
    if damage == "bytes":
        path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(IsoscopeError, match=r"resume\.safetensors is damaged \(.+\); delete .*seed-0 and train again\."):
        kept.resume(network, optimizer)


def test_a_loss_that_is_no_number_ends_the_training_and_keeps_its_checkpoints(corpus, tmp_path):
    with pytest.raises(IsoscopeError, match="lower --rate"):
        small("causal-text", tmp_path / "s", corpus, rate=1e30, steps=60)
    assert "step-0" in weights(tmp_path / "s")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"norm": "middle"}, "pre or post"),
        ({"width": 33, "heads": 2}, "multiple of --heads"),
        ({"width": 9, "heads": 3}, "even number of dimensions"),
        ({"length": 1}, "--length must be at least 2"),
        ({"steps": 0}, "--steps must be at least 1"),
        ({"checkpoints": "0,99"}, "asks for step 99"),
        ({"seeds": "a"}, "--seeds takes numbers and ranges"),
        ({"dtype": "float8"}, "--dtype takes"),
        ({"length": 100_000}, "too little text"),
    ],
)
def test_what_cannot_be_is_one_sentence(corpus, tmp_path, changes, said):
    with pytest.raises(IsoscopeError, match=said):
        small("causal-text", tmp_path / "s", corpus, **changes)


def test_a_misspelt_recipe_names_the_nearest():
    with pytest.raises(IsoscopeError, match="causal-text"):
        recipe("causaltext")


def test_the_grid_of_steps():
    assert grid(1000) == [0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]
