"""The exact permutation test over models, against counting out."""

from itertools import permutations

import numpy as np
import pytest

from isoscope.core.errors import IsoscopeError
from isoscope.estimation.permutation import exact_permutation


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
