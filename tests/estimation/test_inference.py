"""Estimates, exact tests and adjustments against scipy, enumeration and simulation."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from scipy import stats

from isoscope.claims.evidence import greatest_layer, layer_cosines, least_layer
from isoscope.core.errors import IsoscopeError
from isoscope.core.numerics import upper_quantile, widening
from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, make_table
from isoscope.estimation.inference import (
    Estimate,
    band_factor,
    clopper_pearson,
    difference_of,
    exact_permutation,
    greatest_of,
    hochberg,
    holm,
    least_of,
    mean_of,
    sign_test,
    student,
    welch,
)

WIDE, NARROW = Estimate(0.5, 0.4, 0.6), Estimate(0.5, 0.49, 0.51)


def test_student_agrees_with_scipy() -> None:
    values = np.random.default_rng(0).normal(size=7)
    mean = student(values)
    assert (mean.low, mean.high) == pytest.approx(stats.t.interval(0.95, 6, values.mean(), stats.sem(values)))
    assert np.isnan(student([1.0]).low)


def test_welch_agrees_with_scipy() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.normal(1, 2, 7), rng.normal(0, 1, 5)
    gap, known = welch(a, b), stats.ttest_ind(a, b, equal_var=False).confidence_interval()
    assert (gap.low, gap.high) == pytest.approx((known.low, known.high))


def test_sign_test_and_proportion_agree_with_scipy() -> None:
    for wins, n in ((0, 5), (3, 9), (9, 9)):
        exact = stats.binomtest(wins, n)
        assert sign_test(wins, n) == pytest.approx(exact.pvalue)
        assert sign_test(wins, n, one_sided=True) == pytest.approx(stats.binomtest(wins, n, alternative="greater").pvalue)
        assert clopper_pearson(wins, n) == pytest.approx(tuple(exact.proportion_ci()))


def test_least_and_greatest_allow_for_how_many_there_are() -> None:
    assert least_of([WIDE, NARROW]).low == 0.4
    assert greatest_of([WIDE, NARROW]).high == 0.6
    assert greatest_of([WIDE, NARROW], widen=1.0).low == 0.49
    assert greatest_of([WIDE, NARROW]).low == pytest.approx(0.5 - 0.01 * stats.norm.isf(0.0125) / stats.norm.isf(0.025))
    few = [replace(WIDE, freedom=3), replace(NARROW, freedom=3)]
    assert least_of(few).high == pytest.approx(0.5 + 0.01 * stats.t.isf(0.0125, 3) / stats.t.isf(0.025, 3))
    assert greatest_of([NARROW]) == NARROW
    assert np.isnan(least_of([Estimate(0.1), WIDE]).low)


def test_linear_functions_of_estimates() -> None:
    assert mean_of([WIDE, NARROW]).high == pytest.approx(0.555)
    assert WIDE.linear(-1, 1.0) == Estimate(0.5, 0.4, 0.6)
    gap = difference_of(WIDE, NARROW)
    assert (gap.value, gap.low, gap.high) == pytest.approx((0.0, -0.11, 0.11))


def test_holm_by_hand() -> None:
    np.testing.assert_allclose(holm(np.array([0.04, 0.001, 0.03, 0.5])), [0.09, 0.004, 0.09, 0.5])
    assert holm(np.array([])).size == 0


def test_hochberg_by_hand() -> None:
    np.testing.assert_allclose(hochberg(np.array([0.04, 0.001, 0.03, 0.5])), [0.08, 0.004, 0.08, 0.5])
    assert hochberg(np.array([])).size == 0


@pytest.mark.parametrize("together", [0.0, 0.5, 0.9, 1.0])
def test_the_farthest_of_all_layers_stays_within_the_band(together):
    """Layers of 64 groups with a common part: the largest |t| of thirteen exceeds the band in about 5 %."""
    rng, draws, outside = np.random.default_rng(0), 400, 0
    for _ in range(draws):
        moves = together**0.5 * rng.standard_normal((64, 1)) + (1 - together) ** 0.5 * rng.standard_normal((64, 13))
        t = moves.mean(0) / moves.std(0, ddof=1) * 8
        outside += np.abs(t).max() > band_factor(moves - moves.mean(0), 63) * upper_quantile(0.025, 63)
    assert outside / draws == pytest.approx(0.05, abs=3 * (0.0475 / draws) ** 0.5)


def test_it_lies_between_one_layer_and_bonferroni():
    moves = np.random.default_rng(1).standard_normal((64, 13))
    assert band_factor(moves[:, :1], 63) == 1
    assert band_factor(np.tile(moves[:, :1], 13), 63) == pytest.approx(1, abs=0.02)  # of 9,999 draws
    assert 1 < band_factor(moves + 2 * moves[:, :1], 63) < band_factor(moves, 63) <= widening(13, 63)
    assert band_factor(moves, 5) > band_factor(moves, 63)
    assert band_factor(np.column_stack([moves[:, 0], np.zeros(64)]), 63) == 1  # a layer that no document moves


def layered(left_out_of=(0, 1, 2)):
    """A model of three layers with a cosine of 0.3 each, and the layer_cosines without each of ten groups."""
    rng, base = np.random.default_rng(2), {"model": "m", "family": "encoder", "modality": "text", "stack": "encoder", "policy": "all"}
    base |= {"kind": "hidden", "revision": "r"}
    rows = [base | {"layer": i, "metric": "between_cosine", "value": 0.3, "low": 0.2, "high": 0.4, "d": 768} for i in range(3)]
    shared = rng.standard_normal(10)
    base |= {"name": "between_cosine_left_out", "weight": 5}
    points = [
        base | {"layer": i, "x": g, "y": 0.3 + 0.01 * (shared[g] + 0.3 * rng.standard_normal())} for i in left_out_of for g in range(10)
    ]
    return make_table(rows, TABLE_COLUMNS), make_table(points, SERIES_COLUMNS)


def test_a_claim_reads_the_band_from_the_series():
    rows = layer_cosines(*layered())["m"]
    assert rows["freedom"].tolist() == [9.0] * 3
    assert 1 < rows["widen"].iloc[0] < widening(3, 9)
    assert greatest_layer(rows).low == pytest.approx(0.3 - 0.1 * rows["widen"].iloc[0])
    assert (greatest_layer(rows).high, least_layer(rows).low) == (0.4, 0.2)
    assert least_layer(rows).high == pytest.approx(0.3 + 0.1 * rows["widen"].iloc[0])


def test_without_the_series_of_every_layer_bonferroni_stands_in():
    for layers in ((), (0, 1)):
        rows = layer_cosines(*layered(layers))["m"]
        assert "widen" not in rows
        assert greatest_layer(rows).low == pytest.approx(0.3 - 0.1 * widening(3))


def by_hand(values, labels):
    """All orders of the labels, one after the other."""

    def difference(order):
        own = [value for value, label in zip(values, order, strict=True) if label]
        rest = [value for value, label in zip(values, order, strict=True) if not label]
        return abs(sum(own) / len(own) - sum(rest) / len(rest))

    found = difference(labels)
    counted = [difference(order) >= found - 1e-9 for order in permutations(labels)]
    return sum(counted) / len(counted)


@pytest.mark.parametrize(("n", "k"), [(6, 3), (7, 3), (7, 4), (8, 4)])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_equal_to_counting_out(n, k, seed):
    values = np.random.default_rng(seed).standard_normal(n) + 1.5 * (np.arange(n) < k)
    labels = [i < k for i in range(n)]
    assert exact_permutation(values, labels) == pytest.approx(by_hand(values, labels), abs=1e-12)


def test_ties_count_and_the_two_sides_are_one():
    assert exact_permutation([1.0] * 6, [True] * 3 + [False] * 3) == 1
    labels = [True] * 4 + [False] * 3
    values = [0.1, 0.1, 0.3, 0.2, 0.3, 0.1, 0.2]
    assert exact_permutation(values, labels) == by_hand(values, labels)
    assert exact_permutation(values, labels) == exact_permutation([-v for v in values], labels)
    assert exact_permutation(values, labels) == exact_permutation(values, [not label for label in labels])
    assert exact_permutation([10.0, 11, 12, 13, 0, 1, 2, 3], [True] * 4 + [False] * 4) == 2 / 70


def test_fewer_than_three_models_a_group_decide_nothing():
    assert np.isnan(exact_permutation([1.0, 2.0, 0.0, 0.0, 0.1], [True, True, False, False, False]))
    assert np.isnan(exact_permutation([1.0, 2.0, 3.0], [True, True, True]))
    assert np.isnan(exact_permutation([], []))


def test_under_the_null_p_is_below_a_level_no_oftener_than_that():
    rng, labels = np.random.default_rng(3), [True] * 5 + [False] * 4
    p = np.array([exact_permutation(rng.standard_normal(9), labels) for _ in range(2000)])
    for level in (0.05, 0.2, 0.5):
        assert (p <= level).mean() <= level + 3 * (level * (1 - level) / 2000) ** 0.5


def test_bad_input_is_refused():
    with pytest.raises(IsoscopeError, match="one label a value"):
        exact_permutation([1.0, 2.0], [True])
    with pytest.raises(IsoscopeError, match="not defined"):
        exact_permutation([1.0, float("nan")] * 3, [True, False] * 3)
    with pytest.raises(IsoscopeError, match="compare fewer"):
        exact_permutation(np.zeros(40), [True] * 20 + [False] * 20)
