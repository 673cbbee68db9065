"""Verdicts from intervals: Holm keeps the chance of a false one at 5 %, models are the units, thresholds must agree."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm, ttest_1samp

from isoscope.claims.deciding import (
    adjusted_outcomes,
    agreed_outcome,
    every_model,
    most_models,
    outcomes_by_threshold,
    p_value,
    single_outcome,
)
from isoscope.estimation.inference import Estimate, student

WIDE, NARROW = Estimate(0.5, 0.4, 0.6), Estimate(0.5, 0.49, 0.51)


def test_holm_keeps_false_verdicts_at_five_percent() -> None:
    """Five models whose true effect is the threshold: how often does any of them hold, or fail?"""
    rng = np.random.default_rng(0)
    wrong = {"plain": 0, "holm": 0}
    for values in rng.normal(size=(2000, 5)):
        effects = [Estimate(float(x), float(x) - 1.96, float(x) + 1.96) for x in values]
        wrong["plain"] += any(single_outcome(effect, 0.0) != "undecided" for effect in effects)
        wrong["holm"] += any(word != "undecided" for word in adjusted_outcomes(effects, [0.0] * 5))
    assert wrong["plain"] / 2000 > 0.18
    assert wrong["holm"] / 2000 == pytest.approx(0.05, abs=0.015)


def test_one_effect_is_decided_by_its_interval_alone() -> None:
    for low, high in ((0.11, 0.2), (0.09, 0.2), (0.0, 0.09), (-1.0, 1.0)):
        effect = Estimate((low + high) / 2, low, high)
        assert adjusted_outcomes([effect], [0.1]) == [single_outcome(effect, 0.1)]
        assert adjusted_outcomes([effect], [0.1], above=False) == [single_outcome(effect, 0.1, above=False)]


def test_p_belongs_to_the_end_that_faces_the_threshold() -> None:
    assert p_value(Estimate(1.0, 0.5, 9.0), 0.5) == pytest.approx(0.05)
    assert p_value(Estimate(1.0, -9.0, 1.5), 1.5) == pytest.approx(0.05)
    assert p_value(Estimate(1.0, 1.0, 1.0), 0.5) == 0.0
    assert p_value(Estimate(1.0, 1.0, 1.0), 1.0) == 1.0


def test_p_of_few_seeds_and_of_correlations_is_that_of_their_own_scale() -> None:
    """Three seeds: Student's t, whose tails are fat. A correlation: Fisher's z, on which its interval is even."""
    few = student([1.0, 1.2, 1.5])
    assert p_value(few, 0.0) == pytest.approx(ttest_1samp([1.0, 1.2, 1.5], 0).pvalue)
    z, error = np.arctanh(0.9), 0.36
    ends = np.tanh([z, z - 1.959964 * error, z + 1.959964 * error])
    assert p_value(Estimate(*ends, scale=np.arctanh), 0.3) == pytest.approx(2 * norm.sf((z - np.arctanh(0.3)) / error), rel=1e-4)


def test_every_threshold_has_its_own_holm() -> None:
    found = outcomes_by_threshold({"a": WIDE, "b": NARROW}, {"a": (0.1, 0.45), "b": (0.1, 0.45)})
    assert found == [{"a": "holds", "b": "holds"}, {"a": "undecided", "b": "holds"}]
    assert agreed_outcome([at["a"] for at in found]) == "undecided"


@pytest.mark.parametrize(
    ("held", "failed", "open_", "wanted"),
    [
        (3, 0, 0, "holds"),
        (2, 0, 0, "undecided"),
        (3, 0, 1, "undecided"),
        (9, 1, 0, "fails"),
        (0, 2, 0, "undecided"),
        (0, 0, 3, "undecided"),
    ],
)
def test_a_sentence_about_every_model(held: int, failed: int, open_: int, wanted: str) -> None:
    assert every_model(["holds"] * held + ["fails"] * failed + ["undecided"] * open_).outcome == wanted


@pytest.mark.parametrize(
    ("held", "failed", "open_", "wanted"),
    [(6, 0, 0, "holds"), (5, 0, 0, "undecided"), (0, 6, 0, "fails"), (20, 4, 0, "holds"), (6, 0, 6, "undecided"), (12, 8, 0, "undecided")],
)
def test_a_sentence_about_most_models(held: int, failed: int, open_: int, wanted: str) -> None:
    assert most_models(["holds"] * held + ["fails"] * failed + ["undecided"] * open_).outcome == wanted


def test_the_interval_of_a_part_knows_what_is_undecided() -> None:
    sure, unsure = every_model(["holds"] * 4).effect, every_model(["holds", "holds", "undecided", "undecided"]).effect
    assert sure.low == pytest.approx(0.3976, abs=1e-4)
    assert (sure.value, unsure.value) == (1.0, 0.5)
    assert unsure.low < sure.low
    assert unsure.high == 1.0
