"""Metrics of local geometry: what they say of clouds that go wrong in the ways that states do, and hubness from its definition."""

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import skew

from isoscope.core.errors import IsoscopeError
from isoscope.estimation.cloud import Cloud
from isoscope.estimation.matrix_cloud import cloud_of
from isoscope.metrics import (
    cluster_isoscore,
    cluster_share,
    hubness,
    local_isoscore,
    local_isoscore_excess,
    local_share,
    local_share_excess,
)
from isoscope.statistics.sample import Sample, mix, point_hashes

LOCAL = [local_share, local_isoscore, local_share_excess, local_isoscore_excess]
ALL = [*LOCAL, cluster_share, cluster_isoscore, hubness]


def made(n=300, d=12, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d)) * np.arange(1, d + 1) ** -0.7


def in_documents(points, document):
    """A cloud whose points belong to these documents."""
    unit, index = mix(np.asarray(document, dtype=np.uint64)), np.arange(len(points))
    sample = Sample(points.shape[1], len(points))
    sample.update(points.astype(np.float32), point_hashes(0, unit, index), unit, index, np.zeros(len(points), np.int16))
    return Cloud(cloud_of(points).moments, sample=sample)


def brute_hubness(points, k=10):
    counts = np.zeros(len(points))
    for i, point in enumerate(points.astype(np.float64)):
        distance = np.linalg.norm(points.astype(np.float64) - point, axis=1)
        distance[i] = np.inf
        counts[np.argsort(distance)[:k]] += 1
    return counts


@pytest.mark.parametrize("d", [3, 60])
def test_hubness_is_the_skewness_of_occurrences(d):
    x = made(250, d).astype(np.float32)
    counts = brute_hubness(x)
    found = hubness(x)
    assert found == pytest.approx(skew(counts), rel=1e-9)
    assert found.low < found < found.high
    assert f"neighbour of {counts.max() / 250:.1%} of 250 points" in found.note


def test_hubness_of_a_gaussian_is_its_null_and_grows_with_dimension():
    values = [hubness(np.random.default_rng(5).standard_normal((724, d))) for d in (2, 100)]
    for value in values:
        assert abs(value - value.null) < max(6 * value.null_sd, 0.6)
    assert values[0] < 0.5
    assert values[1] > 1.5
    assert values[1].low > values[0].high


def test_a_hub_shows():
    x = np.random.default_rng(1).standard_normal((400, 100))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    x[0] = 0  # nearer to all than they are to each other
    found = hubness(x + 1)
    assert found > 5
    assert found > found.null + 10 * found.null_sd
    assert "neighbour of 99.8%" in found.note


def test_the_interval_of_hubness_holds_what_many_samples_give():
    values = [hubness(np.random.default_rng(seed).standard_normal((300, 10))) for seed in range(20)]
    centre = np.mean(values)
    assert np.mean([value.low <= centre <= value.high for value in values]) >= 0.8


def test_the_chance_of_a_null_is_known_from_a_single_draw_too(monkeypatch):
    many = hubness(np.random.default_rng(2).standard_normal((301, 21)))
    monkeypatch.setattr("isoscope.estimation.resampled_neighbours.WORK", 1)
    values = [hubness(np.random.default_rng(seed).standard_normal((305 + 4 * seed, 21))) for seed in range(6)]
    assert np.mean([value.null for value in values]) == pytest.approx(many.null, abs=3 * many.null_sd)
    assert 0.4 < np.mean([value.null_sd for value in values]) / many.null_sd < 3


def test_the_controls_stand_in_the_note_and_the_null():
    x = made()
    share, excess = local_share(x), local_share_excess(x)
    assert excess == pytest.approx(share - share.null, abs=1e-12)
    assert excess.null == 0
    assert excess.high - excess.low > share.high - share.low - 1e-12
    assert share.note.startswith("of all points 0.")
    assert f"within a Gaussian {share.null:.3g}" in share.note
    assert "with dimensions shuffled 0." in share.note
    assert share.note.endswith("64 neighbours of 256 points")
    assert "clusters, silhouette 0." in cluster_share(x).note
    assert cluster_share(x).null == pytest.approx(cluster_share(x), abs=0.1)


@pytest.mark.parametrize("offset", [30.0, 300.0, 3000.0])
def test_an_offset_of_float32_points_changes_what_rounding_changes(offset):
    stored = (made() + offset).astype(np.float32)
    centred = stored.astype(np.float64) - stored.mean(0, dtype=np.float64)
    clouds = cloud_of(stored), cloud_of(centred)
    for metric in (*LOCAL, hubness):
        one, other = map(metric, clouds)
        assert [one, one.low, one.high] == pytest.approx([other, other.low, other.high], abs=1e-4), metric.name
        assert (one.null, one.null_sd) == pytest.approx((other.null, other.null_sd), abs=1e-4), metric.name
    for metric in (cluster_share, cluster_isoscore):  # k-means may begin elsewhere, and end so
        one, other = map(metric, clouds)
        assert float(one) == pytest.approx(float(other), abs=0.02), metric.name


@pytest.mark.parametrize("metric", ALL, ids=lambda metric: metric.name)
def test_duplicates_are_left_out_and_said(metric):
    x = made().astype(np.float32)
    twice = metric(np.concatenate([x, x[:50]]))
    assert float(twice) == pytest.approx(float(metric(x)), rel=0.1, abs=0.02)
    assert "duplicates left out" in twice.note
    assert twice.n == 300


@pytest.mark.parametrize("metric", ALL, ids=lambda metric: metric.name)
@pytest.mark.parametrize("n", [2, 3, 9])
def test_too_few_points_are_no_error(metric, n):
    found = metric(made(n), allow_wide=True)
    assert math.isnan(found)
    assert "distinct points" in found.note


@pytest.mark.parametrize("metric", LOCAL, ids=lambda metric: metric.name)
def test_a_single_document_has_no_neighbours_in_others(metric):
    found = metric(in_documents(made(), np.zeros(300)))
    assert math.isnan(found)
    assert "all points are of one document" in found.note
    assert "measure more documents" in found.note


def test_a_single_document_has_no_interval_of_the_rest():
    cloud = in_documents(made(), np.zeros(300))
    for metric in (cluster_share, cluster_isoscore, hubness):
        assert not math.isnan(metric(cloud))
        assert math.isnan(metric(cloud).low)


@pytest.mark.parametrize("metric", ALL, ids=lambda metric: metric.name)
def test_nan_is_refused_in_a_matrix_and_named_in_a_cloud(metric):
    x = made()
    x[7, 3] = np.nan
    with pytest.raises(IsoscopeError, match="1 of 300 rows with NaN"):
        metric(x)
    cloud = in_documents(made(), np.arange(300))
    cloud.sample.points[7, 3] = np.nan
    found = metric(cloud)
    assert math.isnan(found)
    assert "1 of 300 points hold NaN" in found.note


def test_one_dimension_has_a_share_and_no_isoscore():
    x = made(200, 1)
    assert local_share(x) == pytest.approx(1, abs=1e-9)
    assert cluster_share(x) == pytest.approx(1, abs=1e-9)
    for metric in (local_isoscore, local_isoscore_excess, cluster_isoscore):
        assert math.isnan(metric(x))
        assert "one dimension" in metric(x).note


def test_neighbours_of_the_same_document_do_not_count():
    rng = np.random.default_rng(0)
    document = np.repeat(np.arange(100), 4)
    # Points of a document lie along a needle; without them the rest is an isotropic ball.
    x = rng.standard_normal((100, 8))[document] + 0.3 * rng.standard_normal((400, 1)) * np.eye(8)[document % 8]
    apart, mixed = local_share(in_documents(x, document)), local_share(in_documents(x, np.arange(400)))
    assert apart != mixed
    assert apart.high - apart.low > mixed.high - mixed.low


def test_what_takes_seconds_is_computed_only_where_it_is_named():
    assert all(metric.on_request for metric in ALL)


def test_work_is_shared_between_metrics_of_a_cloud(monkeypatch):
    from isoscope.estimation import local_geometry as local

    cloud = cloud_of(made())
    first = local_share(cloud)
    monkeypatch.setattr(local, "_compare_neighbourhoods", None)
    assert local_isoscore(cloud).n == first.n


def test_the_page_of_the_manual_runs():
    page = Path(__file__).parents[2] / "docs" / "local-geometry.md"
    blocks = page.read_text("utf-8").split("```python\n")[1:]
    names = {}
    for block in blocks:
        exec(block.split("```")[0], names)
    assert len(blocks) == 2
    assert names["flat"].shape == (600, 20)
