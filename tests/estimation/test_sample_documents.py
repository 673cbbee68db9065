"""A sample's points by document, and their coordinates along eigenvectors."""

import numpy as np
import pytest

from isoscope.estimation.sample_documents import SampleDocuments, axes_of, bootstrap_weights, narrow_product
from isoscope.statistics.sample import Sample, mix, point_hashes


def sample_of(x, item):
    """A sample that holds all points."""
    sample, unit = Sample(x.shape[1], len(x)), mix(np.asarray(item).astype(np.uint64))
    index = np.arange(len(x))
    sample.update(x, point_hashes(0, unit, index), unit, index, np.zeros(len(x), np.int16))
    return sample


def test_points_of_a_document_are_adjacent():
    rng = np.random.default_rng(0)
    x, item = rng.standard_normal((60, 3)).astype(np.float32), rng.integers(0, 9, 60)
    documents = SampleDocuments.of(sample_of(x, item))
    assert documents.counts.tolist() == [np.sum(mix(item.astype(np.uint64)) == unit) for unit in documents.hashes]
    for i, unit in enumerate(documents.hashes):
        held = documents.points[documents.starts[i] : documents.starts[i + 1]]
        assert sorted(held.tolist()) == sorted(x[mix(item.astype(np.uint64)) == unit].astype(np.float64).tolist())


@pytest.mark.parametrize("items", [9, 60])
def test_sums_by_document(items):
    rng = np.random.default_rng(1)
    item = rng.integers(0, items, 60) if items < 60 else np.arange(60)
    documents = SampleDocuments.of(sample_of(rng.standard_normal((60, 3)), item))
    values = rng.standard_normal((60, 2))
    expected = [values[a:b].sum(0) for a, b in zip(documents.starts[:-1], documents.starts[1:], strict=True)]
    np.testing.assert_allclose(documents.sum(values), expected, rtol=1e-13)
    np.testing.assert_allclose(documents.sum(values[:, 0]), np.array(expected)[:, 0], rtol=1e-13)
    part = values[documents.starts[2] : documents.starts[5]]
    np.testing.assert_allclose(documents.sum(part, 2, 5), expected[2:5], rtol=1e-13)


@pytest.mark.parametrize("rows", [1, 7, 25, 1000])
def test_runs_hold_every_document_once(rows):
    documents = SampleDocuments.of(sample_of(np.ones((60, 2)), np.random.default_rng(2).integers(0, 9, 60)))
    runs = list(documents.runs(rows))
    assert [first for first, _ in runs] == [0, *(last for _, last in runs[:-1])]
    assert runs[-1][1] == len(documents.hashes)
    longest = documents.counts.max()
    assert all(documents.starts[last] - documents.starts[first] < rows + longest for first, last in runs)


@pytest.mark.parametrize("offset", [0.0, 3000.0])
def test_products_in_float32_keep_six_digits_of_the_spread(offset):
    rng = np.random.default_rng(3)
    x = (rng.standard_normal((400, 300)) + offset).astype(np.float32)
    documents = SampleDocuments.of(sample_of(x, np.arange(400)))
    assert documents.narrow
    vectors, mean = np.linalg.qr(rng.standard_normal((300, 20)))[0], documents.points.mean(0)
    np.testing.assert_allclose(narrow_product(documents.centred(mean), vectors), (documents.points - mean) @ vectors, atol=3e-6)
    assert not SampleDocuments.of(sample_of(x.astype(np.float64), np.arange(400))).narrow
    np.testing.assert_allclose(narrow_product(x - x.mean(0), vectors), (x - x.mean(0)).astype(np.float64) @ vectors, atol=3e-6)


@pytest.mark.parametrize("scale", [1e-44, 3e38])
def test_products_that_float32_cannot_hold(scale):
    points, vectors = np.ones((4, 300)) * scale, np.ones((300, 1)) / 300**0.5
    np.testing.assert_allclose(narrow_product(points, vectors), np.full((4, 1), scale * 300**0.5), rtol=1e-6)


@pytest.mark.parametrize("m", [200, 7])
def test_axes_are_eigenvectors_in_falling_order(m):
    x = np.random.default_rng(4).standard_normal((m, 12)) * np.arange(1, 13)
    axes = axes_of(x)
    assert axes.shape == (12, min(m, 12))
    products = axes.T @ (x.T @ x) @ axes
    np.testing.assert_allclose(products, np.diag(np.diag(products)), atol=1e-9 * products.max())
    assert (np.diff(np.diag(products)) < 0).all()


def test_the_first_weights_take_each_document_once():
    weights = bootstrap_weights(6, 50)
    assert weights.shape == (51, 6)
    assert (weights[0] == 1).all()
    assert (weights.sum(1) == 6).all()
    assert abs(weights[1:].mean() - 1) < 1e-12
    assert weights[1:].std() == pytest.approx((1 - 1 / 6) ** 0.5, rel=0.15)
