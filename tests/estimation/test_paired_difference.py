"""Differences whose interval can be worked out: of a cloud and a multiple of itself, and of two independent intervals."""

import math

import numpy as np
import pytest

from isoscope.estimation.matrix_cloud import cloud_of
from isoscope.estimation.paired_difference import PAIRED, UNPAIRED, Difference, difference, same_documents, unpaired_difference
from isoscope.metrics import mean_norm, top_share


@pytest.fixture
def points():
    return np.random.default_rng(0).standard_normal((400, 6)) + 1


def test_twice_a_cloud_differs_by_the_cloud_itself(points):
    """2x − x = x, so that the difference of the mean norms has the interval of the mean norm, which independent clouds do not give."""
    a, b = cloud_of(points), cloud_of(2 * points)
    paired = difference(mean_norm, mean_norm(a), mean_norm(b), (a, b), (1.0, 1.0))
    alone = mean_norm(a)
    assert paired.how == PAIRED
    assert (paired.value, paired.low, paired.high) == pytest.approx((float(alone), alone.low, alone.high), rel=1e-9)
    independent = difference(mean_norm, alone, mean_norm(b), None, (1.0, 1.0))
    assert independent.how == UNPAIRED
    half = alone.high - float(alone)
    assert independent.high - independent.value == pytest.approx(half * 5**0.5, rel=1e-9)  # √(1² + 2²)


def test_the_same_draws_of_documents_leave_no_difference(points):
    """The share of the top direction does not depend on the scale: every draw of documents moves both clouds alike."""
    a, b = cloud_of(points), cloud_of(2 * points)
    paired = difference(top_share, top_share(a), top_share(b), (a, b), (1.0, 1.0))
    assert paired.how == PAIRED
    assert (paired.value, paired.low, paired.high) == pytest.approx((0, 0, 0), abs=1e-12)


def test_scales_are_applied_before_the_difference(points):
    a, b = cloud_of(points), cloud_of(2 * points)
    paired = difference(mean_norm, mean_norm(a), mean_norm(b), (a, b), (2.0, 1.0))
    assert (paired.value, paired.low, paired.high) == pytest.approx((0, 0, 0), abs=1e-9)


def test_independent_intervals_add_as_squares_and_give_a_normal_p():
    result = unpaired_difference(1.0, (-0.2, 0.0, 0.3), (0.6, 1.0, 1.5))
    assert (result.low, result.high) == pytest.approx((1 - math.hypot(0.4, 0.3), 1 + math.hypot(0.5, 0.2)))
    assert result.p == pytest.approx(math.erfc(1.959963984540054 / 0.5 / 2**0.5))  # the lower half is 0.5, which is 1.96 sd


def test_without_an_interval_there_is_only_the_value():
    assert unpaired_difference(1.0, (math.nan, 0.0, math.nan), (0.6, 1.0, 1.5)) == Difference(1.0)
    assert math.isnan(difference(mean_norm, mean_norm([[1.0], [2.0]]) * math.nan, mean_norm([[1.0], [2.0]]), None, (1.0, 1.0)).value)


def test_documents_are_the_same_if_every_group_has_as_many(points):
    assert same_documents(cloud_of(points), cloud_of(points * 3))
    assert not same_documents(cloud_of(points), cloud_of(points[:399]))
