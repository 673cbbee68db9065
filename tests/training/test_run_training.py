"""`isoscope train` refuses what cannot work before it reads any data, and trains no seed twice."""

import pytest

from isoscope.core.errors import IsoscopeError
from isoscope.training.run_training import run_training, sparkline
from tests.training.small_trainings import SMALL, train_small, weights


def test_a_seed_that_is_trained_is_left_alone_and_the_next_one_is_added(corpus, tmp_path, capsys):
    suite = train_small("causal-text", tmp_path / "s", corpus, steps=3, checkpoints="0,3")
    before = weights(suite)
    assert sorted(before) == ["step-0", "step-3"]
    options = SMALL | {"steps": 3, "checkpoints": "0,3", "threads": 1}
    assert run_training("causal-text", suite, corpus, seeds="0-1", **options) == suite
    said = capsys.readouterr().err
    assert "causal-text, seed 0: already trained." in said
    assert "loss" in said.partition("causal-text, seed 1: ")[2]
    assert weights(suite) == before
    assert weights(suite, 1)["step-0"] != before["step-0"]


@pytest.mark.parametrize(
    ("recipe", "changes", "sentence"),
    [
        ("speech", {}, "speech needs speech, and .* holds text; give --data with speech"),
        ("causal-text", {"seeds": "99999999999999999999"}, "--seeds must be at most"),
        ("causal-text", {"checkpoints": "0,5", "steps": 4}, "asks for step 5, and the training ends at 4; raise --steps"),
        ("causal-text", {"width": 1 << 20, "heads": 1 << 10, "layers": 1000}, "A network of 1,048,576 dimensions"),
    ],
)
def test_nothing_is_written_if_a_choice_cannot_work(corpus, tmp_path, recipe, changes, sentence):
    with pytest.raises(IsoscopeError, match=sentence):
        run_training(recipe, tmp_path / "s", corpus, quiet=True, **changes)
    assert not (tmp_path / "s").exists()


def test_a_curve_of_few_values_is_stretched_and_a_flat_one_is_low():
    assert sparkline([0, 7], width=4) == "▁▁██"
    assert sparkline([3.0] * 5, width=3) == "▁▁▁"
