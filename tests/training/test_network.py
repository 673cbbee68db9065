"""The small network: what a position sees, and which choices reach its weights."""

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from isoscope.sources import open_source
from isoscope.training.data import load_data
from isoscope.training.loop import new_network
from isoscope.training.recipe import find_recipe
from isoscope.training.run_training import run_training
from tests.training.small_trainings import SMALL


def test_a_causal_network_does_not_see_later_positions(corpus):
    for name, sees in (("causal-text", False), ("masked-text", True)):
        recipe = find_recipe(name).with_(**SMALL)
        data = load_data(recipe, open_source(corpus))
        network = new_network(recipe, data, 0)
        ids = data.batch(np.random.default_rng(0))[0]["input_ids"]
        changed = ids.clone()
        changed[:, 20:] = 5
        before, after = (network(input_ids=given).logits for given in (ids, changed))
        assert torch.allclose(before[:, :20], after[:, :20], atol=1e-6) is not sees


@pytest.mark.parametrize(("norm", "level"), [("post", "characters"), ("pre", "subwords")])
def test_choices_reach_the_network(norm, level, tmp_path):
    suite = run_training("causal-text", tmp_path / "s", threads=1, quiet=True, steps=1, norm=norm, level=level, **SMALL)
    state = load_file(suite / "seed-0/step-1/model.safetensors")
    assert ("first.weight" in state) == (norm == "post")
    assert (len(state["embedding.weight"]) > 1024) == (level == "subwords")
