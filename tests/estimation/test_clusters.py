"""Clusters against brute force and against scikit-learn."""

import numpy as np
import pytest

from isoscope.estimation.clusters import cluster, cluster_shapes, kmeans


def rng(seed=0):
    return np.random.default_rng(seed)


def test_kmeans_finds_balls_and_the_rule_their_number():
    for k in (2, 4, 8):
        g = rng(k)
        owner, centres = g.integers(k, size=600), 20 * g.standard_normal((k, 6))
        found = cluster(centres[owner] + g.standard_normal((600, 6)))
        assert len(found.centres) == k
        assert len(set(zip(found.label, owner, strict=True))) == k
        assert found.silhouette > 0.7


def test_kmeans_is_no_worse_than_that_of_scikit_learn():
    from sklearn.cluster import KMeans

    x = rng(15).standard_normal((1000, 8))
    ours, theirs = kmeans(x, 16), KMeans(16, n_init=3, random_state=0).fit(x)
    assert ours.inertia < 1.03 * theirs.inertia_
    assert ours.inertia == pytest.approx(((x - ours.centres[ours.label]) ** 2).sum(), rel=1e-9)
    np.testing.assert_array_equal(ours.label, ((x[:, None] - ours.centres) ** 2).sum(-1).argmin(1))


def test_kmeans_of_fewer_distinct_points_than_clusters():
    x = np.repeat(np.eye(3), 5, axis=0)
    found = kmeans(x, 3)
    assert found.inertia == pytest.approx(0, abs=1e-12)
    assert len(kmeans(x, 6).centres) == 3


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_kmeans_of_points_whose_squares_float32_cannot_hold(scale):
    points = np.random.default_rng(0).standard_normal((60, 3)).astype(np.float32) + np.repeat([[0], [20]], 30, axis=0).astype(np.float32)
    plain, scaled = kmeans(points, 2), kmeans(points * np.float32(scale), 2)
    assert scaled.label.tolist() == plain.label.tolist()
    np.testing.assert_allclose(scaled.centres, plain.centres * scale, rtol=1e-5)
    assert scaled.inertia == pytest.approx(plain.inertia * scale**2, rel=1e-4)


def test_cluster_shapes_by_brute_force():
    x, label = rng(16).standard_normal((60, 5)), np.array([0] * 20 + [1] * 39 + [2])
    parts = [np.linalg.eigvalsh(np.cov(x[label == own].T)) for own in (0, 1)]
    shares = [values[-1] / values.sum() for values in parts]
    value, influence = cluster_shapes(x, label)
    assert value[0] == pytest.approx((20 * shares[0] + 39 * shares[1]) / 59, rel=1e-9)
    np.testing.assert_allclose(influence.sum(0), 0, atol=1e-12)
    assert not influence[-1].any()
