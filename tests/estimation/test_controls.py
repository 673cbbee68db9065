"""Controls have exactly the covariance of the cloud, and nothing else of it."""

import numpy as np
import pytest
from scipy.stats import kstest

from isoscope.estimation.controls import gaussians, gaussians_by_document, intraclass, shuffle_dimensions


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize(("n", "d"), [(300, 12), (40, 39), (20, 50), (13, 12)])
def test_a_gaussian_control_has_exactly_the_covariance(n, d):
    x = rng(8).exponential(size=(n, d)) @ rng(9).standard_normal((d, d))
    x -= x.mean(0)
    draws = list(gaussians(x, 3))
    for control in draws:
        assert control.shape == (n, d)
        scale = np.abs(x).max()
        np.testing.assert_allclose(control.mean(0), 0, atol=1e-4 * scale)
        np.testing.assert_allclose(np.cov(control.T.astype(np.float64)), np.cov(x.T), atol=1e-5 * scale**2)
    assert not np.allclose(draws[0], draws[1])


@pytest.mark.parametrize(("documents", "d"), [(40, 6), (8, 60)])
def test_a_control_of_documents_has_the_covariance_and_what_documents_share(documents, d):
    owner = np.repeat(np.arange(documents), 5)
    x = (0.9 * rng(18).standard_normal((documents, d))[owner] + 0.4 * rng(19).standard_normal((len(owner), d))) * np.arange(1, d + 1)
    x = (x - x.mean(0)).astype(np.float32)
    for control in gaussians_by_document(x, owner, 2):
        np.testing.assert_allclose(np.cov(control.T.astype(np.float64)), np.cov(x.T.astype(np.float64)), atol=1e-4 * np.abs(x).max() ** 2)
        assert intraclass(control, owner) == pytest.approx(intraclass(x, owner), abs=1e-4)
    alone = np.arange(len(x))
    np.testing.assert_array_equal(next(gaussians_by_document(x, alone)), next(gaussians(x)))


def test_intraclass_is_the_part_that_documents_share():
    owner = np.repeat(np.arange(400), rng(20).integers(1, 9, 400))
    for part in (0.0, 0.3, 0.8):
        x = part**0.5 * rng(21).standard_normal((400, 3))[owner] + (1 - part) ** 0.5 * rng(22).standard_normal((len(owner), 3))
        assert intraclass(x, owner) == pytest.approx(part, abs=0.05)


@pytest.mark.parametrize(("n", "d"), [(80, 6), (6, 20)])
def test_a_control_does_not_depend_on_the_order_of_points(n, d):
    x = rng(17).standard_normal((n, d))
    x -= x.mean(0)
    np.testing.assert_allclose(next(gaussians(x)), next(gaussians(x[::-1])), atol=1e-4)


def test_a_control_has_a_direction_that_is_empty_where_the_cloud_has_one():
    x = rng(10).standard_normal((100, 6))
    x -= x.mean(1, keepdims=True)
    x -= x.mean(0)
    np.testing.assert_allclose(next(gaussians(x)).sum(1), 0, atol=1e-4)


def test_a_control_is_normal_whatever_the_cloud_is():
    x = rng(11).choice([-1.0, 1.0], size=(2000, 3))
    x -= x.mean(0)
    along = next(gaussians(x))[:, 0] / x[:, 0].std()
    assert kstest(along, "norm").pvalue > 0.01


def test_shuffling_keeps_every_dimension_and_ends_what_ties_them():
    x = rng(12).standard_normal((500, 1)) @ np.ones((1, 4))
    out = shuffle_dimensions(x)
    np.testing.assert_array_equal(np.sort(out, axis=0), np.sort(x, axis=0))
    assert np.abs(np.corrcoef(out.T) - np.eye(4)).max() < 0.2
