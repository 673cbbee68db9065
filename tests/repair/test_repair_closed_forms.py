"""What each repair promises, against brute force in float64."""

from __future__ import annotations

import numpy as np
import pytest
from repair_clouds import anisotropic
from scipy.linalg import sqrtm

from isoscope.metrics import mean_cosine
from isoscope.repair import AllButTheTop, Centre, Standardise, Whiten


def test_centring_is_subtracting_the_mean_and_takes_the_cosine_away():
    X = anisotropic()
    out = Centre().fit_transform(X)
    np.testing.assert_allclose(out, X - X.mean(0), atol=1e-12)
    u = out / np.linalg.norm(out, axis=1, keepdims=True)
    brute = ((u @ u.T).sum() - len(u)) / (len(u) * (len(u) - 1))
    assert mean_cosine(X) > 0.5
    assert mean_cosine(out) == pytest.approx(brute, abs=1e-12)
    assert abs(brute) < 0.01


def test_standardising_is_the_z_score():
    X = anisotropic()
    out = Standardise().fit_transform(X)
    np.testing.assert_allclose(out, (X - X.mean(0)) / X.std(0, ddof=1), atol=1e-10)


def test_all_but_the_top_is_the_residual_of_a_truncated_svd():
    X = anisotropic()
    repair = AllButTheTop(k=3).fit(X)
    u, s, vt = np.linalg.svd(X - X.mean(0), full_matrices=False)
    np.testing.assert_allclose(repair.transform(X), (u[:, 3:] * s[3:]) @ vt[3:], atol=1e-10)
    np.testing.assert_allclose(repair.transform(X) @ repair.components_.T, 0, atol=1e-12)
    np.testing.assert_allclose(repair.transform(X).mean(0), 0, atol=1e-12)
    assert not hasattr(repair, "inverse_transform")


def test_all_but_the_top_of_new_points_has_nothing_along_what_was_removed():
    repair = AllButTheTop(k=3).fit(anisotropic())
    np.testing.assert_allclose(repair.transform(anisotropic(50, seed=9)) @ repair.components_.T, 0, atol=1e-12)


@pytest.mark.parametrize(("d", "k"), [(12, 1), (149, 1), (151, 2), (300, 3)])
def test_the_default_k_is_a_hundredth_of_the_dimensions(d, k):
    assert len(AllButTheTop().fit(np.random.default_rng(0).normal(size=(2 * d, d))).components_) == k


def test_k_zero_is_centring():
    X = anisotropic()
    np.testing.assert_allclose(AllButTheTop(k=0).fit_transform(X), Centre().fit_transform(X), atol=1e-12)


@pytest.mark.parametrize("kind", ["pca", "zca"])
def test_the_covariance_of_whitened_points_is_the_identity(kind):
    out = Whiten(kind).fit_transform(anisotropic())
    np.testing.assert_allclose(np.cov(out.T), np.eye(12), atol=1e-10)
    np.testing.assert_allclose(out.mean(0), 0, atol=1e-12)


@pytest.mark.parametrize("kind", ["pca", "zca"])
def test_the_identity_holds_to_a_millionth_at_a_variance_ratio_of_a_thousand_million(kind):
    rng = np.random.default_rng(3)
    turn = np.linalg.qr(rng.normal(size=(40, 40)))[0]
    X = rng.normal(size=(2000, 40)) * np.geomspace(1, 10**-4.5, 40) @ turn + 100
    np.testing.assert_allclose(np.cov(Whiten(kind).fit_transform(X).T), np.eye(40), atol=1e-6)


def test_pca_whitening_is_that_of_scikit_learn_up_to_signs():
    from sklearn.decomposition import PCA

    X = anisotropic()
    ours, theirs = Whiten("pca", n_components=4).fit_transform(X), PCA(4, whiten=True).fit_transform(X)
    np.testing.assert_allclose(np.abs(ours), np.abs(theirs), atol=1e-9)


def test_zca_is_the_inverse_root_of_the_covariance_and_the_closest_whitening():
    X = anisotropic()
    centred = X - X.mean(0)
    out = Whiten("zca").fit_transform(X)
    np.testing.assert_allclose(out, centred @ np.linalg.inv(sqrtm(np.cov(X.T)).real), atol=1e-9)
    moved = ((out - centred) ** 2).sum()
    rng = np.random.default_rng(0)
    for turn in [Whiten("pca").fit(X).components_.T, *(np.linalg.qr(rng.normal(size=(12, 12)))[0] for _ in range(20))]:
        assert ((out @ turn - centred) ** 2).sum() > moved


def test_zca_with_fewer_components_projects_first():
    X = anisotropic()
    values, vectors = np.linalg.eigh(np.cov(X.T))
    top, scale = vectors[:, -4:], values[-4:] ** -0.5
    expected = (X - X.mean(0)) @ (top * scale) @ top.T
    np.testing.assert_allclose(Whiten("zca", n_components=4).fit_transform(X), expected, atol=1e-10)


def test_a_ridge_is_added_to_every_variance_as_a_part_of_their_mean():
    X = anisotropic()
    C = np.cov(X.T)
    added = C + 0.2 * np.trace(C) / 12 * np.eye(12)
    expected = (X - X.mean(0)) @ np.linalg.inv(sqrtm(added).real)
    np.testing.assert_allclose(Whiten("zca", ridge=0.2).fit_transform(X), expected, atol=1e-10)


@pytest.mark.parametrize("repair", [Centre(), Standardise(), Whiten("pca"), Whiten("zca"), Whiten("zca", ridge=0.1), Whiten(ridge=0.1)])
def test_inverse_transform_brings_points_back_new_ones_too(repair):
    repair.fit(anisotropic())
    new = anisotropic(50, seed=5)
    np.testing.assert_allclose(repair.inverse_transform(repair.transform(new)), new, atol=1e-10)


def test_the_inverse_of_fewer_components_is_the_best_approximation():
    X = anisotropic()
    u, s, vt = np.linalg.svd(X - X.mean(0), full_matrices=False)
    expected = (u[:, :4] * s[:4]) @ vt[:4] + X.mean(0)
    for kind in ("pca", "zca"):
        repair = Whiten(kind, n_components=4).fit(X)
        np.testing.assert_allclose(repair.inverse_transform(repair.transform(X)), expected, atol=1e-9)
