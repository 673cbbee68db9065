"""Estimates and tests against scipy, or against a result worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from isoscope.estimation.inference import (
    Estimate,
    clopper_pearson,
    difference_of,
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
