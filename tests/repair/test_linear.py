"""The linear repairs against brute force in float64, on hard inputs (offsets, narrow types, constant dimensions), and their errors."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import sqrtm
from sklearn.decomposition import PCA

from isoscope.core.errors import IsoscopeError, IsoscopeWarning
from isoscope.metrics import mean_cosine
from isoscope.repair import AllButTheTop, Centre, Precision, RepairError, Standardise, Whiten
from isoscope.statistics.site_statistics import Moments
from tests.repair.repair_clouds import anisotropic, moments_of

ALL = [Centre(), Standardise(), AllButTheTop(k=2), Whiten("pca"), Whiten("zca")]


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


def test_a_ridge_is_added_to_every_variance_as_a_fraction_of_their_mean():
    X = anisotropic()
    C = np.cov(X.T)
    added = C + 0.2 * np.trace(C) / 12 * np.eye(12)
    expected = (X - X.mean(0)) @ np.linalg.inv(sqrtm(added).real)
    np.testing.assert_allclose(Whiten("zca", ridge=0.2).fit_transform(X), expected, atol=1e-10)


@pytest.mark.parametrize("repair", [Centre(), Standardise(), Whiten("pca"), Whiten("zca"), Whiten("zca", ridge=0.1), Whiten(ridge=0.1)])
def test_inverse_transform_restores_new_points(repair):
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


@pytest.mark.parametrize("offset", [100.0, 1000.0])
@pytest.mark.parametrize("repair", ALL, ids=repr)
def test_float32_far_from_the_origin_loses_no_digits(repair, offset):
    narrow = anisotropic(5000, offset=offset).astype(np.float32)
    wide = repair.fit_transform(narrow.astype(np.float64))
    out = repair.fit_transform(narrow)
    assert (out.dtype, wide.dtype) == (np.float32, np.float64)
    np.testing.assert_allclose(out, wide, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(out.astype(np.float64).mean(0), 0, atol=1e-6)


@pytest.mark.parametrize("kind", ["pca", "zca"])
def test_float32_at_a_thousand_is_white_to_a_millionth(kind):
    out = Whiten(kind).fit_transform(anisotropic(5000, offset=1000).astype(np.float32))
    np.testing.assert_allclose(np.cov(out.T.astype(np.float64)), np.eye(12), atol=1e-6)


def test_float64_at_a_million_is_white_to_a_millionth():
    X = anisotropic(1000, offset=1e6) * 0.1
    np.testing.assert_allclose(np.cov(Whiten().fit_transform(X).T), np.eye(12), atol=1e-6)


def test_float16_gives_float32_and_integers_give_float64():
    X = anisotropic(100).round()
    assert Centre().fit_transform(X.astype(np.float16)).dtype == np.float32
    np.testing.assert_array_equal(Centre().fit_transform(X.astype(np.int64)), Centre().fit_transform(X))


@pytest.mark.parametrize("repair", ALL, ids=repr)
def test_merged_shards_give_what_one_matrix_gives(repair):
    X = anisotropic(9000)
    whole = repair.fit(X).transform(X)
    order = np.random.default_rng(0).permutation(9000)
    # The first shard has fewer points than dimensions, so it holds the points themselves.
    merged = repair.fit_moments(moments_of(X[order[:7]], X[order[7:4000]], X[order[4000:]]))
    np.testing.assert_allclose(merged.transform(X), whole, atol=1e-9)
    assert merged.n_samples_seen_ == 9000


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_constant_dimension_becomes_zero_and_comes_back(dtype):
    X = anisotropic(500).astype(dtype)
    X[:, 4] = 1000.1
    repair = Standardise().fit(X)
    out = repair.transform(X)
    assert not out[:, 4].any()
    np.testing.assert_allclose(np.delete(out, 4, 1).std(0, ddof=1), 1, atol=1e-5)
    np.testing.assert_allclose(repair.inverse_transform(out), X, rtol=1e-6, atol=1e-6)


def test_a_small_spread_at_a_large_offset_is_not_taken_for_constant():
    rng = np.random.default_rng(0)
    X = (1000 + 0.01 * rng.normal(size=(500, 3))).astype(np.float32)
    np.testing.assert_allclose(Standardise().fit_transform(X).std(0, ddof=1), 1, atol=1e-4)
    assert Whiten().fit_transform(X).shape == (500, 3)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("offset", [0.0, 1000.0])
def test_dependent_columns_are_dropped_with_a_warning(dtype, offset):
    X = anisotropic(500, offset=0)
    X = np.concatenate([X, X[:, :1] + X[:, 1:2], X[:, 2:3]], axis=1) + offset
    X = X.astype(dtype)
    with pytest.warns(IsoscopeWarning, match=r"2 of the 14 directions have no variance beyond rounding.* left out"):
        pca = Whiten("pca").fit_transform(X)
    np.testing.assert_allclose(np.cov(pca.T), np.eye(12), atol=1e-5)
    with pytest.warns(IsoscopeWarning, match="are set to 0"):
        repair = Whiten("zca").fit(X)
    zca = repair.transform(X)
    assert zca.shape == X.shape
    assert np.abs(zca).max() < 10
    np.testing.assert_allclose(np.linalg.eigvalsh(np.cov(zca.T.astype(np.float64))), [0, 0, *[1] * 12], atol=1e-5)
    np.testing.assert_allclose(repair.inverse_transform(zca), X, rtol=1e-5, atol=1e-2 if dtype == np.float32 and offset else 1e-5)


def test_layer_normalised_points_have_one_direction_less():
    X = anisotropic(500, 32, offset=0)
    X = (X - X.mean(1, keepdims=True)) / X.std(1, keepdims=True) * np.linspace(0.5, 2, 32) + 1
    moments = Moments(32)
    moments.update(X.astype(np.float32))  # float32 products, as a tap takes them
    single = float(np.finfo(np.float32).eps)
    with pytest.warns(IsoscopeWarning, match="1 of the 32"):
        repair = Whiten("pca").fit_moments(moments, precision=Precision(single, single))
    assert np.abs(repair.transform(X)).max() < 10


@pytest.mark.parametrize("kind", ["pca", "zca"])
def test_fewer_points_than_dimensions(kind):
    X = anisotropic(8, 30)
    with pytest.warns(IsoscopeWarning, match="23 of the 30"):
        repair = Whiten(kind).fit(X)
    out = repair.transform(X)
    assert out.shape == (8, 7 if kind == "pca" else 30)
    np.testing.assert_allclose(np.sort(np.linalg.eigvalsh(np.cov(out.T)))[-7:], 1, atol=1e-9)
    np.testing.assert_allclose(repair.inverse_transform(out), X, atol=1e-9)


def test_a_ridge_keeps_directions_in_which_no_point_varied():
    X, new = anisotropic(8, 30), anisotropic(5, 30, seed=4)
    repair = Whiten("zca", ridge=0.1).fit(X)
    np.testing.assert_allclose(repair.inverse_transform(repair.transform(new)), new, atol=1e-9)


def test_duplicated_points_change_only_the_count():
    X = anisotropic(200)
    twice = np.concatenate([X, X])
    np.testing.assert_allclose(AllButTheTop(k=2).fit(twice).transform(X), AllButTheTop(k=2).fit(X).transform(X), atol=1e-10)
    # n − 1 below the sum of squares: the variance is 2·199/399 of what it was.
    np.testing.assert_allclose(Whiten("zca").fit(twice).transform(X), Whiten("zca").fit(X).transform(X) * np.sqrt(399 / 398), atol=1e-9)


def test_equal_points_become_zero_and_cannot_be_whitened():
    X = np.full((50, 3), 0.1)
    for repair in (Centre(), Standardise(), AllButTheTop()):
        np.testing.assert_allclose(repair.fit_transform(X), 0, atol=1e-15)
    with pytest.raises(RepairError, match="all 50 are equal"):
        Whiten().fit(X)


@pytest.mark.parametrize("repair", ALL, ids=repr)
def test_one_point_is_refused(repair):
    with pytest.raises(ValueError, match="minimum of 2"):
        repair.fit(np.ones((1, 12)))
    with pytest.raises(IsoscopeError, match="at least two points; there is 1"):
        repair.fit_moments(moments_of(np.ones((1, 12))))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("repair", ALL, ids=repr)
def test_nan_and_infinity_are_refused_with_their_row(repair, bad):
    X = anisotropic(5000)
    repair.fit(X)
    X[4500, 3] = bad
    for act in (repair.fit, repair.transform):
        with pytest.raises(IsoscopeError, match="NaN or infinity, first in row 4500"):
            act(X)


def test_values_whose_squares_overflow_are_refused():
    with pytest.raises(RepairError, match="overflow"):
        Centre().fit(np.full((3, 2), 1e200))


@pytest.mark.parametrize(
    ("repair", "sentence"),
    [
        (AllButTheTop(k=-1), r"The 'k' parameter must be None or an int of at least 0 .*, 12\. Got -1 instead\."),
        (AllButTheTop(k=12), "Got 12 instead"),
        (AllButTheTop(k=1.5), "Got 1.5 instead"),
        (AllButTheTop(k=True), "Got True instead"),
        (Whiten("mahalanobis"), r"The 'kind' parameter must be 'pca' or 'zca'\. Got 'mahalanobis' instead\."),
        (Whiten(n_components=0), "'n_components' parameter must be None or an int from 1 to"),
        (Whiten(n_components=13), "Got 13 instead"),
        (Whiten(ridge=-1.0), "The 'ridge' parameter must be a finite float of at least 0"),
        (Whiten(ridge=np.nan), "Got nan instead"),
    ],
)
def test_parameters_are_refused_in_scikit_learns_words(repair, sentence):
    with pytest.raises(RepairError, match=sentence):
        repair.fit(anisotropic())


def test_no_more_directions_are_removed_than_points_differ_in():
    with pytest.raises(RepairError, match=r"must be at most 4, the number of directions in which the 5 points differ\. Got 6 instead"):
        AllButTheTop(k=6).fit(anisotropic(5))


def test_without_second_moments_only_centring_is_possible():
    X = anisotropic()
    moments = Moments(12, second=False)
    moments.update(X)
    np.testing.assert_allclose(Centre().fit_moments(moments).mean_, X.mean(0), atol=1e-12)
    for repair in (Standardise(), AllButTheTop(), Whiten()):
        with pytest.raises(RepairError, match="--second-moments"):
            repair.fit_moments(moments)
