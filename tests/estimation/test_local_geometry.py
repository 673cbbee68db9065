"""Shapes and neighbourhoods against brute force and against what Gaussians must give."""

import numpy as np
import pytest

from isoscope.core.errors import IsoscopeError
from isoscope.estimation import local_geometry as local
from isoscope.estimation.controls import gaussians
from isoscope.estimation.local_geometry import (
    MEASURES,
    DistinctPoints,
    local_comparison,
    nearest,
    neighbourhoods,
    shape,
)
from isoscope.estimation.matrix_cloud import cloud_of
from isoscope.metrics import isoscore, top_share
from isoscope.statistics.sample import Sample, mix, point_hashes


def rng(seed=0):
    return np.random.default_rng(seed)


def sampled(points, document=None):
    """The sample of points, each in a document of its own unless it is said."""
    document = np.arange(len(points)) if document is None else document
    unit, index = mix(np.asarray(document, dtype=np.uint64)), np.arange(len(points))
    sample = Sample(points.shape[1], len(points))
    sample.update(points.astype(np.float32), point_hashes(0, unit, index), unit, index, np.zeros(len(points), np.int16))
    return sample


@pytest.mark.parametrize(("m", "d"), [(40, 7), (7, 40), (12, 12), (600, 530), (530, 600)])
def test_a_shape_is_the_top_share_and_the_isoscore(m, d):
    x = rng(m).standard_normal((m, d)) * np.arange(1, d + 1) ** -0.5 + 3
    found = shape(x).values
    assert found == pytest.approx([float(top_share(x, allow_wide=True)), float(isoscore(x, allow_wide=True))], rel=1e-9)


@pytest.mark.parametrize(("m", "d"), [(30, 5), (9, 20)])
def test_the_influence_of_a_point_is_the_derivative_by_its_weight(m, d):
    x = rng(1).standard_normal((m, d)) * np.arange(1, d + 1) ** -0.5

    def weighted(weights):
        weights = weights / weights.sum()
        z = x - weights @ x
        values = np.linalg.eigvalsh((z * weights[:, None]).T @ z)
        return np.array([values[-1] / values.sum(), (values.sum() ** 2 / (values**2).sum() - 1) / (d - 1)])

    found = shape(x).influence
    for i in (0, m // 2):
        step = 1e-6 * (np.arange(m) == i)
        slope = (weighted(1 / m + step) - weighted(1 / m - step)) / 2e-6
        np.testing.assert_allclose(found[i], slope, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(found.mean(0), 0, atol=1e-12)


def test_shapes_of_many_sets_are_those_of_each():
    x = rng(2).standard_normal((5, 20, 8))
    together, alone = shape(x), [shape(one) for one in x]
    np.testing.assert_allclose(together.values, [one.values for one in alone], rtol=1e-12)
    np.testing.assert_allclose(together.influence, [one.influence for one in alone], rtol=1e-9, atol=1e-12)


def test_the_nearest_points_of_other_documents_by_brute_force():
    document = rng(4).integers(60, size=200)
    distinct = DistinctPoints.of(sampled(rng(3).standard_normal((200, 20)) + 300, document))
    rows = np.arange(0, 200, 7)
    found = nearest(distinct.points, rows, 12, distinct.owner)
    assert found.shape == (len(rows), 12)
    for row, near in zip(rows, found, strict=True):
        distance = np.linalg.norm(distinct.points.astype(np.float64) - distinct.points[row], axis=1)
        distance[distinct.owner == distinct.owner[row]] = np.inf
        assert near.tolist() == sorted(np.argsort(distance)[:12].tolist())


def test_neighbourhoods_by_brute_force():
    x = rng(5).standard_normal((120, 6)).astype(np.float32)
    rows, values = np.array([3, 50, 99]), []
    for row in rows:
        distance = np.linalg.norm(x.astype(np.float64) - x[row], axis=1)
        near = np.argsort(distance)[1:21]
        spectrum = np.linalg.eigvalsh(np.cov(x[near].T.astype(np.float64)))
        values.append([spectrum[-1] / spectrum.sum(), (spectrum.sum() ** 2 / (spectrum**2).sum() - 1) / 5])
    found, _ = neighbourhoods(x, rows, 20, np.arange(120))
    np.testing.assert_allclose(found, np.mean(values, 0), rtol=1e-9)


@pytest.mark.parametrize("offset", [30.0, 300.0, 3000.0])
def test_distinct_points_do_not_depend_on_order_offset_or_copies(offset):
    x = (rng(6).standard_normal((200, 5)) + offset).astype(np.float32)
    once = DistinctPoints.of(sampled(x))
    again = DistinctPoints.of(sampled(np.concatenate([x, x[:30], x[:30]])[rng(7).permutation(260)]))
    np.testing.assert_allclose(np.sort(once.points, axis=0), np.sort(again.points, axis=0), rtol=1e-6, atol=1e-7)
    assert (once.duplicates, again.duplicates, once.n, again.n) == (0, 60, 200, 200)
    wide = x.astype(np.float64) - x.mean(0, dtype=np.float64)
    np.testing.assert_allclose(np.sort(once.points, axis=0), np.sort(wide, axis=0), rtol=1e-6, atol=1e-7)


def test_minus_zero_is_zero():
    assert DistinctPoints.of(sampled(np.array([[0.0, 1.0], [-0.0, 1.0], [2.0, 1.0]]))).n == 2


GAUSSIANS = {
    "isotropic": lambda g: g.standard_normal((150, 20)),
    "falling": lambda g: g.standard_normal((150, 20)) / np.arange(1, 21),
    "wide": lambda g: g.standard_normal((90, 120)),
}


@pytest.mark.parametrize("make", GAUSSIANS.values(), ids=GAUSSIANS)
def test_the_interval_of_a_gaussian_holds_zero(make, monkeypatch):
    monkeypatch.setattr(local, "CENTRES", 48)
    found = [local._compare_neighbourhoods(sampled(make(rng(100 + seed)))) for seed in range(8)]
    numbers = [one.excess(measure) for one in found for measure in MEASURES]
    assert np.mean([number.low <= 0 <= number.high for number in numbers]) >= 0.9


@pytest.mark.parametrize("make", GAUSSIANS.values(), ids=GAUSSIANS)
def test_a_gaussian_differs_from_its_control_by_chance_alone(make):
    differences = []
    for seed in range(24):
        x = make(rng(seed))
        x -= x.mean(0)
        pair = [neighbourhoods(points, np.arange(40), 64, np.arange(len(x)))[0] for points in (x, next(gaussians(x, seed=seed)))]
        differences.append(pair[0] - pair[1])
    away = np.mean(differences, 0) / (np.std(differences, 0, ddof=1) / 24**0.5)
    assert (np.abs(away) < 3).all()


def balls(g, n=800, d=10):
    """Isotropic balls along one line."""
    return g.standard_normal((n, d)) + 40.0 * g.integers(8, size=n)[:, None] * (np.arange(d) == 0)


def needles(g, n=800, d=10):
    """Thin needles, each of a direction of its own."""
    which = g.integers(8, size=n)
    along = np.linalg.qr(g.standard_normal((d, d)))[0][:8]
    return 10 * g.standard_normal((8, d))[which] + g.standard_normal((n, 1)) * along[which] * 3 + 0.02 * g.standard_normal((n, d))


def test_balls_along_a_line_are_locally_more_isotropic_than_their_gaussian_and_needles_less():
    share, score = (local_comparison(cloud_of(balls(rng(1)))).excess(measure) for measure in MEASURES)
    assert share.high < 0 < score.low
    share, score = (local_comparison(cloud_of(needles(rng(1)))).excess(measure) for measure in MEASURES)
    assert score.high < 0 < share.low


def test_a_dominated_gaussian_is_locally_isotropic_and_that_says_nothing():
    spectrum = np.where(np.arange(100) == 0, 0.9, 0.1 / 99)
    found = local_comparison(cloud_of(rng(2).standard_normal((2000, 100)) * np.sqrt(spectrum)))
    assert found.whole[0] == pytest.approx(0.9, abs=0.01)
    assert 0.05 < found.value[0] < 0.2
    excess = found.excess("share")
    assert excess.low < 0 < excess.high


def test_documents_widen_the_interval():
    x = rng(13).standard_normal((300, 8))
    alone = local._compare_neighbourhoods(sampled(x))
    document = np.argsort(np.argsort(x[:, 0])) // 20
    together = local._compare_neighbourhoods(sampled(x, document))
    assert (together.error > alone.error).all()
    assert together.effective == pytest.approx(15)
    assert alone.effective == pytest.approx(300)


def test_what_has_no_neighbourhoods_says_why():
    x = rng(14).standard_normal((300, 4))
    for sample, sentence in (
        (sampled(x[:64]), "at least 65 distinct points; there are 64"),
        (sampled(np.repeat(x[:40], 5, axis=0)), "there are 40"),
        (sampled(x, np.zeros(300)), "of one document.*measure more documents"),
        (sampled(x, np.where(np.arange(300) < 270, 0, np.arange(300))), "some points have 30; measure more documents"),
        (sampled(np.where(np.arange(1200).reshape(300, 4) == 5, np.nan, x)), "1 of 300 points hold NaN"),
    ):
        with pytest.raises(IsoscopeError, match=sentence):
            local._compare_neighbourhoods(sample)
