"""Batches: the same for twins, and without the items that are held out."""

import numpy as np
import torch

from isoscope.sources import open_source
from isoscope.training.data import MASK, load_data
from isoscope.training.loop import new_network
from isoscope.training.recipe import find_recipe
from tests.training.small_trainings import SMALL


def test_twins_start_with_the_same_weights_and_windows(corpus):
    recipes = [find_recipe(name).with_(**SMALL) for name in ("causal-text", "masked-text", "causal-masked-text")]
    datasets = [load_data(recipe, open_source(corpus)) for recipe in recipes]
    states = [new_network(recipe, data, 3).state_dict() for recipe, data in zip(recipes, datasets, strict=True)]
    for name, tensor in states[0].items():
        assert all(torch.equal(tensor, other[name]) for other in states[1:]), name
    shown = [data.batch(np.random.default_rng([3, 1]))[0]["input_ids"] for data in datasets]
    hidden = shown[1] != shown[0]
    assert torch.equal(shown[1], shown[2])
    assert 0.08 < hidden.float().mean() < 0.3
    assert (shown[1][hidden] == datasets[1].tokenizer.convert_tokens_to_ids(MASK)).float().mean() > 0.5


def test_held_out_items_are_not_trained_on(tmp_path):
    (tmp_path / "t.txt").write_text("\n\n".join(("z" * 50 if i % 20 == 0 else "abcd" * 12) for i in range(60)), "utf-8")
    data = load_data(find_recipe("causal-text").with_(**SMALL), open_source(str(tmp_path / "t.txt")))
    z = data.tokenizer.convert_tokens_to_ids("z")
    drawn = [data.batch(np.random.default_rng(i))[0]["input_ids"] for i in range(50)]
    assert not any((ids == z).any() for ids in drawn)
    assert (data.batch(np.random.default_rng(0), held_out=True)[0]["input_ids"] == z).any()
