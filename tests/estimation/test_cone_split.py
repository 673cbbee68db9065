"""Splits of points into groups: the best split agrees with a search over all, and small sides are no groups."""

import numpy as np
import pytest

from isoscope.estimation.cone_split import FEWEST, ONE_PEAK, SMALLEST_SIDE, _best_split, split_into_cones


def test_the_best_split_of_weighted_values_agrees_with_a_search():
    rng = np.random.default_rng(0)
    values = np.sort(rng.standard_normal(60) + 4.0 * (rng.random(60) < 0.3))
    weights = np.concatenate([np.ones((1, 60)), rng.multinomial(60, np.full(60, 1 / 60), size=5)]).astype(np.float64)
    shares, at = _best_split(values, weights)
    for row, share, place in zip(weights.astype(int), shares, at, strict=True):
        drawn = np.repeat(values, row)
        explained = {}
        for i in range(60):
            left, right = np.repeat(values[: i + 1], row[: i + 1]), np.repeat(values[i + 1 :], row[i + 1 :])
            if min(len(left), len(right)) >= SMALLEST_SIDE * 60:
                explained[i] = 1 - (len(left) * left.var() + len(right) * right.var()) / 60 / drawn.var()
        assert share == pytest.approx(max(explained.values()), rel=1e-9)
        assert explained[int(place)] == pytest.approx(share, rel=1e-9)


def test_two_distant_groups_explain_what_is_between_them():
    """Halves at ±a with unit variance: the split explains a²/(a² + 1) of the variance between their centres."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2000, 4))
    x[::2, 0] += 5.0
    x[1::2, 0] -= 5.0
    split = split_into_cones(x + 100.0)
    assert split.cones == 2
    assert split.share == pytest.approx(25 / 26, abs=0.005)
    assert ONE_PEAK < split.low < split.share < split.high < 1


def test_a_few_outliers_are_no_group():
    x = np.random.default_rng(0).standard_normal((1000, 4))
    x[:20] += 40.0  # 2 % of the points, and a side has at least 5 %
    assert split_into_cones(x).cones == 1


def test_too_few_distinct_points_that_are_not_zero_are_not_judged():
    x = np.random.default_rng(0).standard_normal((FEWEST, 4))
    assert split_into_cones(x).cones == 1
    assert split_into_cones(np.concatenate([x[1:], x[1:], np.zeros((50, 4))])) is None
