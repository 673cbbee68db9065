"""Values that theory gives."""

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from sklearn.decomposition import PCA

from isoscope.metrics import (
    centred_cosine,
    cosine_sd,
    drift_ratio,
    effective_rank,
    isoscore,
    mean_cosine,
    participation_ratio,
    spectrum,
    stable_rank,
    top_share,
    top_share_linear,
)


def rng(seed=0):
    return np.random.default_rng(seed)


def test_cosines_agree_with_scipy_over_all_pairs():
    x = rng().standard_normal((300, 12)) + 0.3
    cosines = 1 - pdist(x, "cosine")
    assert mean_cosine(x) == pytest.approx(cosines.mean(), rel=1e-12)
    assert cosine_sd(x) == pytest.approx(cosines.std(), rel=1e-12)


def test_mean_square_of_the_cosine():
    """(‖Σuuᵀ‖²_F − n)/(n(n−1)) is mean² + sd²."""
    x = rng(1).standard_normal((200, 9)) + 0.2
    u = x / np.linalg.norm(x, axis=1, keepdims=True)
    mean_square = ((u.T @ u) ** 2).sum() - 200
    assert mean_cosine(x) ** 2 + cosine_sd(x) ** 2 == pytest.approx(mean_square / (200 * 199), rel=1e-12)


@pytest.mark.parametrize("length", [2.0, 10.0, 40.0])
def test_drift_model(length):
    """x = b + σz has mean cosine ≈ ‖b‖²/(‖b‖² + dσ²), and this drift ratio too."""
    d, sigma = 256, 0.7
    b = rng(2).standard_normal(d)
    x = length * b / np.linalg.norm(b) + sigma * rng(3).standard_normal((4000, d))
    expected = length**2 / (length**2 + d * sigma**2)
    assert mean_cosine(x) == pytest.approx(expected, rel=0.02, abs=5e-4)
    assert drift_ratio(x) == pytest.approx(expected, rel=0.02, abs=5e-4)
    assert mean_cosine(x).low < expected * 1.005 + 5e-4
    assert mean_cosine(x).high > expected * 0.995 - 5e-4


def test_isoscore_is_the_participation_ratio_rescaled():
    x = rng(4).standard_normal((500, 32)) * np.linspace(0.1, 3, 32)
    assert isoscore(x) == pytest.approx((participation_ratio(x) - 1) / 31, rel=1e-12)
    assert isoscore(x).null == pytest.approx((participation_ratio(x).null - 1) / 31, rel=1e-12)


@pytest.mark.parametrize(("n", "d"), [(4096, 64), (1000, 200), (300, 300)])
def test_participation_ratio_of_an_isotropic_sample(n, d):
    found = participation_ratio(rng(5).standard_normal((n, d)))
    expected = d / (1 + d / n)
    assert found == pytest.approx(expected, rel=0.02)
    assert found.null == pytest.approx(expected, rel=0.01)


def test_marchenko_pastur_edge():
    found = top_share(rng(6).standard_normal((4096, 768)).astype(np.float32))
    assert found.null == pytest.approx(0.00267, abs=5e-6)
    assert found == pytest.approx(0.00267, rel=0.02)


@pytest.mark.parametrize("n", [10, 200])
def test_mean_cosine_is_blind_to_centred_anisotropy(n):
    """±v gives −1/(n−1), whatever v; the top share sees it."""
    v = rng(7).standard_normal(6)
    x = np.concatenate([np.tile(v, (n // 2, 1)), np.tile(-v, (n // 2, 1))])
    assert mean_cosine(x) == pytest.approx(-1 / (n - 1), rel=1e-12)
    assert top_share(x) == pytest.approx(1.0, rel=1e-12)
    assert effective_rank(x) == pytest.approx(1.0, abs=1e-4)


def test_rectified_features_have_mean_cosine_one_over_pi():
    x = np.maximum(rng(8).standard_normal((3000, 2048)).astype(np.float32), 0)
    assert mean_cosine(x) == pytest.approx(1 / np.pi, abs=1e-3)
    assert mean_cosine(x.astype(np.float64)) == pytest.approx(float(mean_cosine(x)), rel=1e-6)


def test_singular_values_ten_two_one():
    left = np.linalg.qr(np.column_stack([np.ones(50), rng(9).standard_normal((50, 3))]))[0][:, 1:]  # orthogonal to the constant
    right = np.linalg.qr(rng(10).standard_normal((3, 3)))[0]
    x = left * [10.0, 2.0, 1.0] @ right.T + 5
    assert top_share(x) == pytest.approx(100 / 105, rel=1e-10)
    assert top_share_linear(x) == pytest.approx(10 / 13, rel=1e-10)
    assert round(top_share(x), 3) == 0.952
    assert round(top_share_linear(x), 3) == 0.769
    assert stable_rank(x - x.mean(0)) == pytest.approx(1 / top_share(x), rel=1e-9)


def test_spectrum_agrees_with_scikit_learn():
    x = rng(11).standard_normal((400, 30)) @ rng(12).standard_normal((30, 30)) + 50
    pca = PCA(svd_solver="full").fit(x)
    rank, values, _ = spectrum(x)
    assert values == pytest.approx(pca.explained_variance_[rank.astype(int) - 1], rel=1e-9)
    assert top_share(x) == pytest.approx(pca.explained_variance_ratio_[0], rel=1e-10)


def test_a_few_massive_points_leave_a_centred_cosine():
    """The mean is pulled to a massive point, and the others then lie on the other side of it: near 0 it is not."""
    x = rng(13).standard_normal((1000, 64))
    assert abs(centred_cosine(x)) < 2e-3
    x[0] *= 1000
    assert centred_cosine(x) > 0.3
    assert centred_cosine(x).null > 0.3


def test_uniform_directions_have_cosine_sd_of_one_over_root_d():
    found = cosine_sd(rng(14).standard_normal((2000, 50)))
    assert found == pytest.approx(50**-0.5, rel=0.01)
    assert found.null == pytest.approx(50**-0.5, rel=1e-12)
