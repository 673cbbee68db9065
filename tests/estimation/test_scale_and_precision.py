"""A matrix of any size of numbers, with any offset, gives the numbers of the same cloud in the middle of the range of floats."""

import numpy as np
import pytest

import isoscope
from isoscope.core.errors import IsoscopeError
from isoscope.metrics import metrics
from isoscope.statistics.kernel import block_sums

LENGTHS = {"mean_norm", "drift_norm"}
"""Metrics that are lengths; the others do not depend on the unit, but for `partition_isotropy`, which has no unit to be free of."""


def cloud(n=300, d=24):
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, d)) * np.arange(1, d + 1) + 6.0


@pytest.mark.parametrize(
    ("kind", "exponent"), [(np.float64, e) for e in (-1000, -530, -100, 70, 530, 1000)] + [(np.float32, e) for e in (-120, -55, 60, 110)]
)
def test_no_number_depends_on_the_unit_of_length(kind, exponent):
    """A factor that is a power of two changes no digit of the input, so none of the result."""
    x = cloud().astype(kind)
    plain, scaled = isoscope.geometry(x), isoscope.geometry(np.ldexp(x, exponent))
    assert set(plain) == set(scaled)
    assert [name for name, number in scaled.items() if np.isnan(number)] == ["within_cosine"]  # rows are items, of one point each
    for name in sorted(set(plain) - {"partition_isotropy", "within_cosine"}):
        factor = 2.0**exponent if name in LENGTHS else 1.0
        for part in ("low", "high", "null"):
            expected = getattr(plain[name], part) * factor
            assert getattr(scaled[name], part) == pytest.approx(expected, rel=1e-5, abs=0, nan_ok=True), (name, part)
        assert float(scaled[name]) == pytest.approx(float(plain[name]) * factor, rel=1e-5, abs=0), name
    assert np.isfinite(float(scaled["partition_isotropy"]))


def test_partition_isotropy_of_long_vectors_is_the_extreme_of_their_products():
    """ln Z is the largest product plus the logarithm of how often it occurs; far out, only the first counts."""
    x = cloud()
    basis = np.linalg.eigh(x.T @ x)[1]
    products = np.concatenate([x @ basis, -(x @ basis)], axis=1).max(0)
    value = float(isoscope.geometry(x * 2.0**530, metric="partition_isotropy")["partition_isotropy"])
    assert value == pytest.approx((products.min() - products.max()) * 2.0**530, rel=1e-9)


@pytest.mark.parametrize("exponent", [-140, -60, 70, 120])
def test_rows_of_very_different_lengths_each_have_a_direction(exponent):
    """Only a row of zeros is zero, and only NaN and infinity are not finite."""
    x = np.vstack([cloud(40, 5), np.ldexp(cloud(40, 5)[::-1], exponent), np.zeros((1, 5))]).astype(np.float32)
    sums = block_sums(x[None])
    long = x[:-1].astype(np.float64)
    u = long / np.abs(long).max(1, keepdims=True)
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    assert (sums.nonfinite, sums.zeros.tolist(), sums.n.tolist()) == (0, [1.0], [81.0])
    np.testing.assert_allclose(sums.directions[0], u.sum(0), rtol=1e-6)
    np.testing.assert_allclose(sums.squared[0], (u**2).sum(0), rtol=1e-6)
    np.testing.assert_allclose(sums.total[0], long.sum(0), rtol=1e-6)
    np.testing.assert_allclose(sums.norm[0], np.linalg.norm(long, axis=1).sum(), rtol=1e-6)
    np.testing.assert_allclose(sums.norm2[0], (long**2).sum(), rtol=1e-6)


@pytest.mark.parametrize("metric", ["two_nn", "local_isoscore", "cluster_isoscore", "hubness"])
def test_an_offset_takes_no_digits_from_the_sample(metric):
    rng = np.random.default_rng(1)
    x = np.round(rng.standard_normal((2000, 8)), 6)
    far = isoscope.geometry(x + 1e7, metric=metric)[metric]
    assert float(far) == pytest.approx(float(isoscope.geometry(x, metric=metric)[metric]), rel=1e-3)


def test_nan_is_named_by_its_first_row(tmp_path):
    x = cloud(9000, 3)
    x[[4444, 8000], [2, 0]] = np.nan, np.inf
    np.save(tmp_path / "bad.npy", x)
    for matrix in (x, tmp_path / "bad.npy"):
        with pytest.raises(IsoscopeError, match="has 2 of 9000 rows with NaN or infinity, the first at row 4444; correct or remove them"):
            isoscope.geometry(matrix)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_duplicates_are_counted_over_all_rows(kind, tmp_path):
    x = np.random.default_rng(2).standard_normal((20_000, 4)).astype(kind)
    x[15_000:15_700] = x[100:800]
    x[16_000] = x[0]
    np.save(tmp_path / "x.npy", x)
    for matrix in (x, tmp_path / "x.npy"):
        note = isoscope.geometry(matrix, metric="two_nn", sample=1000)["two_nn"].note
        assert note.endswith("of 1,000 points, 701 among all 20,000"), note
    few = isoscope.geometry(x[:800].repeat(2, axis=0), metric="two_nn")["two_nn"].note
    assert few == "800 exact duplicates left out"


def test_duplicates_of_more_rows_than_hashes_can_be_held_are_estimated(monkeypatch):
    monkeypatch.setattr("isoscope.estimation.matrix_cloud.MOST_HASHES", 5000)
    x = np.random.default_rng(3).standard_normal((10_000, 4)).repeat(2, axis=0)
    note = isoscope.geometry(x, metric="two_nn", sample=500)["two_nn"].note
    assert int(note.split(" among")[0].split()[-1].replace(",", "")) == pytest.approx(10_000, rel=0.1)


def test_every_metric_of_points_was_tried():
    assert {entry.name for entry in metrics("points") if not entry.on_request} == set(isoscope.geometry(cloud()))
