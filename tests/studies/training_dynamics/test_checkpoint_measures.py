"""Sums of heads are those of their vectors, and intrinsic dimensions of halves those of the metric."""

import numpy as np
import pytest

from isoscope.studies.training_dynamics.checkpoint_measures import HeadSums, measure_level, measure_levels, split_documents
from tests.studies.training_dynamics.made_points import cloud, heads_of, sample_of, vectors


@pytest.mark.parametrize("n", [5, 400])
def test_sums_of_heads_are_sums_of_their_vectors(n):
    points = vectors(0, n, 3, 16)
    sums = HeadSums.of(heads_of(points), [0, 1, 2])
    assert sums.n == n
    np.testing.assert_allclose(sums.total, points.sum(1), rtol=1e-10)
    np.testing.assert_allclose(sums.outer, points.swapaxes(1, 2) @ points, rtol=1e-10, atol=1e-9)
    body = HeadSums.of(heads_of(points), [2])
    assert body.n == n - 3


def test_a_key_that_several_queries_share_comes_again():
    sums = HeadSums.of(heads_of(vectors(1, 50, 2, 4)), [0, 1, 2])
    wide = sums.at(np.arange(4) * 2 // 4)
    np.testing.assert_array_equal(wide.total, sums.total[[0, 0, 1, 1]])


def test_halves_divide_documents_not_points():
    sample = sample_of(np.random.default_rng(0).normal(size=(600, 3)), 40)
    first, second = split_documents(sample)
    assert len(first) + len(second) == 600
    assert min(len(first), len(second)) > 150
    assert not set(sample.unit[first]) & set(sample.unit[second])


def test_levels_are_those_of_the_metric():
    from isoscope.metrics import registry

    points = cloud(4, 700).astype(np.float32)
    assert measure_level(points, np.arange(700)).value == pytest.approx(float(registry["two_nn"](points)), rel=1e-6)
    found = measure_levels(sample_of(points, 100), 300)
    assert found.pick.value == pytest.approx(4, rel=0.25)
    assert found.judge.value == pytest.approx(4, rel=0.25)
    assert found.gaussian.value == pytest.approx(4, rel=0.35)
    assert np.isnan(measure_levels(sample_of(points, 100), 600).judge.value)
    assert np.isnan(measure_level(np.zeros((50, 4), np.float32), np.arange(50)).value)
