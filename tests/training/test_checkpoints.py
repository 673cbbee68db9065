"""The files of a training: suites do not mix, and damaged files are refused."""

import pytest
import torch
from safetensors.torch import load_file, save_file

from isoscope.core.errors import IsoscopeError
from isoscope.training.checkpoints import Checkpoints
from tests.training.small_trainings import train_small


def test_two_recipes_cannot_share_a_suite(corpus, tmp_path):
    train_small("causal-text", tmp_path / "s", corpus, steps=1)
    with pytest.raises(IsoscopeError, match="was trained with name = causal-text, not masked-text"):
        train_small("masked-text", tmp_path / "s", corpus, steps=1)


@pytest.mark.parametrize("text", ["{", "[1]", "[" * 100_000, "\x00"])
def test_a_suite_with_a_damaged_description_is_refused(corpus, tmp_path, text):
    train_small("causal-text", tmp_path / "s", corpus, steps=1)
    (tmp_path / "s" / "training.json").write_text(text)
    with pytest.raises(IsoscopeError, match=r"(is damaged|was trained with)"):
        train_small("causal-text", tmp_path / "s", corpus, steps=2)


@pytest.mark.parametrize("damage", ["no step", "losses", "a weight", "a moment", "bytes"])
def test_a_damaged_state_is_refused_in_one_sentence(corpus, tmp_path, damage):
    network = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(network.parameters())
    network(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    files = Checkpoints(tmp_path, 0)
    files.save_state(4, network, optimizer, [(1, 0.5, float("nan")), (4, 0.25, 0.5)])
    step, losses = files.resume(network, optimizer)
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
        files.resume(network, optimizer)
