"""What metrics of one cloud share is computed once, and what a profile does not use is not computed."""

import numpy as np
import pytest

from isoscope.core.errors import IsoscopeError
from isoscope.estimation import cloud as module
from isoscope.estimation.cloud import REACH
from isoscope.estimation.matrix_cloud import cloud_of
from isoscope.estimation.neighbours import neighbours
from isoscope.metrics import bell, gride_scales, hubness, levina_bickel, top_share, two_nn


def made(n=300, d=8, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d)) * np.arange(1, d + 1) ** -0.5


@pytest.fixture
def searches(monkeypatch):
    """How many neighbours each search was asked for, at least and at most."""
    seen = []

    def search(points, k, *, reach, **more):
        seen.append((k, reach))
        return neighbours(points, k, reach=reach, **more)

    monkeypatch.setattr(module, "neighbours", search)
    return seen


def test_one_search_serves_all_that_ask_for_no_more(searches):
    cloud = cloud_of(made())
    every = neighbours(cloud.require_sample().points, REACH)
    assert cloud.neighbours().distances.shape == (300, REACH)
    for k in (2, 5, REACH):
        np.testing.assert_array_equal(cloud.neighbours(k).indices, every.indices[:, :k])
        np.testing.assert_array_equal(cloud.neighbours(k).distances, every.distances[:, :k])
    assert searches == [(1, REACH)]


def test_two_are_searched_for_by_themselves_and_further_ones_once(searches):
    cloud = cloud_of(made())
    for metric in (two_nn, levina_bickel, hubness, gride_scales, two_nn):
        metric(cloud)
    assert searches == [(2, 2), (20, REACH)]


def test_few_points_have_all_others_as_neighbours(searches):
    cloud = cloud_of(made(12))
    assert cloud.neighbours(2).distances.shape == (12, 2)
    assert cloud.neighbours().distances.shape == (12, 11)
    assert cloud.neighbours().distances.shape == (12, 11)
    assert len(searches) == 2
    with pytest.raises(IsoscopeError, match="12 neighbours of each point need at least 13 distinct points; there are 12"):
        cloud.neighbours(12)


def test_what_is_shared_is_computed_once_for_each_cloud():
    calls = []

    def size(cloud):
        calls.append(cloud)
        return cloud.n

    one, other = cloud_of(made(30)), cloud_of(made(40))
    assert [one.cached(size), one.cached(size), other.cached(size), one.cached(size)] == [30, 30, 40, 30]
    assert [cloud is one for cloud in calls] == [True, False]
    assert one.cached(lambda cloud: cloud.d) == 8


def test_a_profile_computes_no_null(monkeypatch):
    stack = {layer: cloud_of(made(seed=layer)) for layer in range(1, 7)}
    plain = bell(stack)
    level = bell.estimate_layer(cloud_of(made()))
    assert level.value == float(top_share(made()))
    monkeypatch.setattr(module, "isotropic_spectra", None)
    again = bell({layer: cloud_of(made(seed=layer)) for layer in range(1, 7)})
    assert (float(again), again.low, again.high) == (float(plain), plain.low, plain.high)
    with pytest.raises(TypeError):
        top_share(cloud_of(made()))


def test_draws_move_a_metric_as_they_move_a_profile():
    cloud = cloud_of(made())
    found, level = top_share(cloud), bell.estimate_layer(cloud)
    low, high = level.value + np.nanquantile(level.shifts, [0.025, 0.975])
    assert (found.low, found.high) == (low, high)
    assert level.shifts.std() > 0
