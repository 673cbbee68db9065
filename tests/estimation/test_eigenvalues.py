"""Eigenvalues, and what chance gives at the same n and d."""

import numpy as np
import pytest

from isoscope.estimation.cloud import Cloud
from isoscope.estimation.eigenvalues import entropy, isotropic_spectra
from isoscope.estimation.matrix_cloud import cloud_of
from isoscope.metrics import participation_ratio, top_share


def wishart(degrees, d, draws, seed):
    rng = np.random.default_rng(seed)
    clouds = rng.standard_normal((draws, min(degrees, d), max(degrees, d)))
    return np.linalg.eigvalsh(clouds @ clouds.transpose(0, 2, 1) / degrees)[:, ::-1]


@pytest.mark.parametrize(("degrees", "d"), [(100, 12), (12, 40), (20, 20), (1, 6), (6, 1), (200, 20)])
def test_isotropic_spectra_are_those_of_gaussian_clouds(degrees, d):
    draws = 400
    found, truth = isotropic_spectra(degrees, d, draws=draws, seed=1), wishart(degrees, d, draws, 2)
    assert found.shape == truth.shape == (draws, min(degrees, d))
    assert (np.diff(found, axis=1) <= 0).all()
    error = (2 / draws) ** 0.5
    for k in (1, 2, 3):
        a, b = (found**k).sum(1), (truth**k).sum(1)
        assert a.mean() == pytest.approx(b.mean(), abs=4.5 * error * b.std()), k
    np.testing.assert_allclose(found.mean(0), truth.mean(0), atol=4.5 * error * truth.std(0).max(), rtol=0)
    np.testing.assert_allclose(found.std(0), truth.std(0), rtol=0.25, atol=1e-3)
    # Known exactly: E tr W = d and E tr W² = d + d(d+1)/degrees, for W of `degrees` rows over their number.
    assert found.sum(1).mean() == pytest.approx(d, rel=5 * (2 / (degrees * d * draws)) ** 0.5)
    assert (found**2).sum(1).mean() == pytest.approx(d + d * (d + 1) / degrees, rel=0.1 if degrees > 1 and d > 1 else 0.3)


def test_entropy():
    assert entropy(np.array([2.0, 2.0, 2.0, 0.0])) == pytest.approx(np.log(3), rel=1e-12)
    assert entropy(np.array([[1.0, 1.0], [5.0, 0.0]])).tolist() == pytest.approx([np.log(2), 0.0], abs=1e-12)


@pytest.mark.parametrize(("n", "d"), [(200, 10), (8, 20), (20, 20), (21, 20)])
@pytest.mark.parametrize("centred", [True, False])
def test_values_and_vectors(n, d, centred):
    x = np.random.default_rng(n).standard_normal((n, d)) + 2
    spectrum = cloud_of(x, ("second",), allow_wide=True).spectrum(centred=centred)
    matrix = np.cov(x.T) if centred else x.T @ x / n
    size = min(n - centred, d)
    assert spectrum.size == len(spectrum.values) == size
    np.testing.assert_allclose(spectrum.values, np.linalg.eigvalsh(matrix)[::-1][:size], rtol=1e-8)
    np.testing.assert_allclose(matrix @ spectrum.vectors, spectrum.vectors * spectrum.values, atol=1e-9 * spectrum.values[0])
    np.testing.assert_allclose(spectrum.vectors.T @ spectrum.vectors, np.eye(size), atol=1e-10)


@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_directions_that_hold_nothing_have_an_eigenvalue_of_zero(offset):
    """The solver leaves about the last digit of the largest eigenvalue there, and its root would count in every rank."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((200, 3)) @ rng.standard_normal((3, 40)) + offset
    values = cloud_of(x, ("second",)).spectrum().values
    truth = np.linalg.svd(x - x.mean(0), compute_uv=False)[:3] ** 2 / 199
    np.testing.assert_allclose(values[:3], truth, rtol=1e-10)
    assert (values[3:] == 0).all()


def test_a_bootstrap_of_the_whole_is_near_one_with_decompositions():
    """Along fixed eigenvectors the spread of a function is that of a bootstrap that decomposes every draw."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((600, 5)) * np.sqrt([8, 4, 2, 1, 0.5])
    for metric, function in ((participation_ratio, lambda v: v.sum() ** 2 / (v**2).sum()), (top_share, lambda v: v.max() / v.sum())):
        found = metric(cloud_of(x))
        draws = [function(np.linalg.eigvalsh(np.cov(x[rng.integers(0, 600, 600)].T))) for _ in range(300)]
        low, high = np.quantile(draws, [0.025, 0.975])
        assert found.high - found.low == pytest.approx(high - low, rel=0.25)


def test_no_interval_without_a_sample():
    cloud = cloud_of(np.random.default_rng(6).standard_normal((50, 4)))
    bare = top_share(Cloud(cloud.moments, cloud.groups))
    assert np.isnan(bare.low)
    assert float(bare) == float(top_share(cloud))
