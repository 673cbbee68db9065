"""Recipes and their choices."""

import pytest

from isoscope.core.errors import IsoscopeError
from isoscope.training.recipe import checkpoint_steps, find_recipe
from tests.training.small_trainings import train_small


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
def test_impossible_choices_are_refused_in_one_sentence(corpus, tmp_path, changes, said):
    with pytest.raises(IsoscopeError, match=said):
        train_small("causal-text", tmp_path / "s", corpus, **changes)


def test_a_misspelt_recipe_names_the_nearest():
    with pytest.raises(IsoscopeError, match="causal-text"):
        find_recipe("causaltext")


def test_default_checkpoints_are_at_1_2_5_and_powers_of_ten():
    assert checkpoint_steps(1000) == [0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]
