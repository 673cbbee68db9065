"""Rise and fall: found in clouds whose dimension rises and falls, and in nothing else."""

import numpy as np
import pytest

from isoscope.estimation.inference import Estimate
from isoscope.studies.training_dynamics.checkpoint_measures import Level, Levels, measure_levels
from isoscope.studies.training_dynamics.rise_and_fall import Phases, mean_level, rise_then_fall, verdict_over_seeds
from tests.studies.training_dynamics.made_points import cloud, sample_of

STEPS = [0, 1, 2, 4, 8, 16, 32]


def curves(dimensions, seeds):
    """Levels of clouds whose dimension over the steps is known."""
    drawn = [[cloud(dim, 900, seed=100 * s + i) for i, dim in enumerate(dimensions)] for s in range(seeds)]
    return {s: [measure_levels(sample_of(points, 150), 400) for points in own] for s, own in enumerate(drawn)}


def test_a_rise_and_a_fall_are_found_with_five_seeds():
    found = rise_then_fall([0, 1, 2, 3, 4], curves([3, 6, 12, 6, 3], 5))
    assert [one.peak for one in found.values()] == [2] * 5
    assert [one.verdict for one in found.values()] == ["holds"] * 5
    assert verdict_over_seeds(list(found.values())) == ("holds", 0.03125)
    assert verdict_over_seeds(list(found.values())[:4])[0] == "undecided"
    assert all(one.gaussian_rise.value > 2 for one in found.values())


@pytest.mark.parametrize("dimensions", [[2, 4, 6, 9, 12], [12, 9, 6, 4, 2], [6, 6, 6, 6, 6]], ids=["rising", "falling", "flat"])
def test_a_curve_that_does_not_rise_and_fall_does_not_pass(dimensions):
    found = rise_then_fall([0, 1, 2, 3, 4], curves(dimensions, 5))
    words = [one.verdict for one in found.values()]
    assert "holds" not in words
    assert verdict_over_seeds(list(found.values()))[0] == ("undecided" if len(set(dimensions)) == 1 and "undecided" in words else "fails")


def test_noise_does_not_pass():
    """Where all steps are alike but for chance the picked peak is no peak on the other half: of 200 curves hardly one passes."""
    rng = np.random.default_rng(0)
    passed = 0
    for _ in range(200):
        one = lambda: Level(float(10 + 1.5 * rng.normal()), 1.5, 50.0)  # noqa: E731
        found = rise_then_fall(STEPS, {0: [Levels(one(), one(), one()) for _ in STEPS]})
        passed += found[0].verdict == "holds"
    assert passed <= 2


def test_the_peak_is_picked_by_other_seeds():
    """A seed whose own half peaks elsewhere is judged at the peak of the others."""
    flat, steps = Level(5.0, 0.1, 50.0), [0, 1, 2, 3]
    high = Level(9.0, 0.1, 50.0)
    own = [Levels(high if i == 1 else flat, high if i == 1 else flat, flat) for i in range(4)]
    other = [Levels(high if i == 2 else flat, high if i == 2 else flat, flat) for i in range(4)]
    found = rise_then_fall(steps, {0: own, 1: other})
    assert (found[0].peak, found[0].verdict) == (2, "fails")
    assert rise_then_fall(steps, {0: own})[0].verdict == "holds"


def test_a_mean_over_layers_keeps_the_error():
    assert mean_level([Level(4.0, 0.2, 10.0), Level(6.0, 0.4, 20.0)]) == Level(5.0, pytest.approx(0.3), 15.0)


def test_verdicts_need_five():
    judged = Phases(1, 5, Estimate(1), Estimate(1), Estimate(0), Estimate(0), "fails")
    assert verdict_over_seeds([judged] * 5) == ("fails", 1.0)
    assert verdict_over_seeds([judged] * 4)[0] == "undecided"
