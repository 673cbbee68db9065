"""The partition function of wide points, whose products are taken in float32, and its null."""

import numpy as np
import pytest
from brute_force import partition

from isoscope.estimation.matrix_cloud import cloud_of
from isoscope.metrics import partition_isotropy


def cloud_and_points(points, sample):
    """A cloud of points, and those in its sample."""
    cloud = cloud_of(points, ("second", "sample", "groups"), sample=sample)
    return cloud, cloud.require_sample().points.astype(np.float64)


def points(scale=1.0, offset=0.0):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((900, 280)) / np.arange(1, 281) ** 0.3 * rng.lognormal(0, 0.2, (900, 1))
    return (scale * x + offset).astype(np.float32)


@pytest.mark.parametrize("sample", [4096, 500, 200])
@pytest.mark.parametrize(("scale", "offset"), [(1.0, 0.0), (8.0, 0.0), (1.0, 5.0)])
def test_of_the_sample_the_value_has_all_digits(scale, offset, sample):
    cloud, x = cloud_and_points(points(scale, offset), sample)
    found = partition_isotropy(cloud)
    assert found.n == len(x) == min(sample, 900)
    assert float(found) == pytest.approx(partition(x), rel=1e-6)


@pytest.mark.parametrize("sample", [4096, 500])
def test_float32_products_move_the_interval_by_little(sample):
    narrow, wide = (partition_isotropy(cloud_and_points(points().astype(kind), sample)[0]) for kind in (np.float32, np.float64))
    assert float(narrow) == pytest.approx(float(wide), rel=1e-9)
    for name in ("low", "high", "null"):
        assert getattr(narrow, name) == pytest.approx(getattr(wide, name), rel=1e-4), name
    assert narrow.low < narrow < narrow.high < 0


@pytest.mark.parametrize("d", [40, 280])
def test_the_null_is_one_draw_with_the_observed_norms(d):
    cloud, x = cloud_and_points(points()[:, :d], 4096)
    x = x[np.argsort(cloud.require_sample().unit)]  # by document, which decides which point gets which direction
    lengths, values = np.linalg.norm(x, axis=1, keepdims=True), []
    for seed in range(10):
        u = np.random.default_rng(seed).standard_normal(x.shape)
        values.append(partition(lengths * u / np.linalg.norm(u, axis=1, keepdims=True)))
    assert partition_isotropy(cloud).null == pytest.approx(values[0], rel=1e-4)  # the directions of seed 0
    assert abs(values[0] - np.mean(values)) < 4 * np.std(values)


@pytest.mark.parametrize("scale", [1e-30, 1e25])
def test_points_of_any_length(scale):
    """A squared length may overflow or vanish in float32; what is taken there must not."""
    found = partition_isotropy(points(scale))
    assert np.isfinite([found, found.low, found.high, found.null]).all()
    assert float(found) == pytest.approx(partition(points(scale).astype(np.float64)), rel=1e-6, abs=1e-12)
