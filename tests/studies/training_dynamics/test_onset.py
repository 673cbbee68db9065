"""Onsets, changes and precedence, each against a case that is known or another library."""

import numpy as np
import pytest

from isoscope.estimation.inference import Estimate
from isoscope.studies.training_dynamics.onset import Track, change, direction, onset, onset_over_seeds, precedence, share_later

STEPS = [0, 1, 2, 4, 8, 16, 32]


def track(values, half=0.01, steps=STEPS):
    values = np.asarray(values, dtype=float)
    return Track(np.array(steps, dtype=float), values, values - half, values + half)


def test_onset_is_the_first_step_past_a_tenth():
    assert onset(track([0, 0.05, 0.09, 0.3, 0.6, 0.9, 1.0])).value == 4
    assert onset(track([5, 4.9, 4.8, 4.0, 2.0, 1.0, 1.0])).value == 4
    assert onset(track([5, 4.9, 4.5, 4.0, 2.0, 1.0, 1.0])).value == 2
    assert onset(track([0, -0.5, 0, 0, 0.2, 0.9, 1.0])).value == 8  # the wrong way does not count


def test_onset_has_an_interval_over_documents():
    found = onset(track([0, 0.05, 0.09, 0.12, 0.6, 0.9, 1.0], half=0.03))
    assert (found.low, found.value, found.high) == (2, 4, 8)


def test_what_does_not_change_has_no_onset():
    rng = np.random.default_rng(0)
    assert np.isnan(onset(track(rng.normal(size=7) * 0.01, half=0.05)).value)
    assert np.isnan(onset(track([1.0] * 7)).value)
    assert np.isnan(onset(track([0.0, 1.0], steps=[0, 1])).value)


def test_onset_over_seeds():
    early, late = [0, 0.05, 0.2, 0.5, 1, 1, 1], [0, 0.0, 0.0, 0.05, 0.5, 1, 1]
    found = onset_over_seeds([track(early), track(late), track([1.0] * 7)])
    assert found.value == pytest.approx(np.expm1((np.log1p(2) + np.log1p(8)) / 2))
    assert 0 <= found.low < 2 < 8 < found.high <= 32
    assert found.note == "over 2 of 3 seeds"
    assert onset_over_seeds([track(early)]).value == 2


def test_change_over_seeds_and_over_documents():
    one = change([track([0.1, 0.3, 0.5], half=0.03, steps=[0, 1, 2])])
    assert (one.value, one.high - one.value) == pytest.approx((0.4, 0.03 * 2**0.5))
    many = change([track([0, 1], steps=[0, 1]), track([0, 3], steps=[0, 1])])
    assert many.value == 2
    assert (many.low, many.high) == pytest.approx((2 - 12.706, 2 + 12.706), abs=1e-3)
    assert [direction(x) for x in (one, many, Estimate(-1, -2, -0.5))] == ["up", "undecided", "down"]


def test_precedence_of_one_seed_has_no_interval():
    """Heads of one training share its chance: eight of nine are no evidence of what another training would do."""
    from scipy import stats

    drift = np.array([[1, 1, 1, 1, 1, 1, 1, 1, 8, 2, np.nan]], dtype=float)
    sharp = np.array([[4, 4, 4, 4, 4, 4, 4, 4, 4, 2, 4]], dtype=float)
    found = precedence(drift, sharp)
    assert (found.value, found.p, found.units) == pytest.approx((8 / 9, stats.binomtest(8, 9).pvalue, 9))
    assert np.isnan([found.low, found.high]).all()
    assert (found.verdict, "one seed decides nothing" in found.note) == ("undecided", True)


def test_precedence_holds_one_half_unless_onsets_differ_too():
    """Two of three heads drift first in every seed, but the third sharpens so much earlier that onsets do not differ on average."""
    drift, sharp = np.array([[10, 10, 100]] * 3, dtype=float), np.array([[11, 11, 50], [12, 12, 60], [30, 30, 9]], dtype=float)
    found = precedence(drift, sharp)
    assert found.value == pytest.approx(2 / 3)
    assert found.low <= 0.5 < found.high
    assert precedence(drift[:, :2], sharp[:, :2] + 100).verdict == "drift first"


def test_precedence_of_several_takes_seeds():
    rng = np.random.default_rng(0)
    drift = rng.choice([1, 2, 4], size=(5, 18)).astype(float)
    found = precedence(drift, drift + 1)
    assert (found.value, found.units, found.p, found.verdict) == (1.0, 5, 0.0625, "drift first")
    noise = precedence(rng.choice([1, 2, 4.0], size=(5, 18)), rng.choice([1, 2, 4.0], size=(5, 18)))
    assert noise.verdict == "undecided"
    assert precedence(np.full((1, 4), np.nan), np.ones((1, 4))).verdict == "undecided"


def test_later_is_mann_and_whitneys():
    from scipy import stats

    rng = np.random.default_rng(0)
    a, b = rng.choice([4.0, 8, 16, 32], 9), rng.choice([1.0, 2, 4, 8], 7)
    found, p = share_later([a], [b])
    exact = stats.mannwhitneyu(a, b)
    assert (found.value, p) == pytest.approx((exact.statistic / 63, exact.pvalue))
    many, p = share_later([a, a + 1, a + 2], [b, b, b])
    assert many.low < many.value <= 1
    assert p == 0.25
    assert np.isnan(share_later([np.array([])], [b])[0].value)
