"""Neighbours among some of the points, the jackknife over groups of items, and what is kept of isotropic points."""

import tracemalloc

import numpy as np
import pytest

from isoscope.core.errors import IsoscopeError
from isoscope.estimation import resampled_neighbours as module
from isoscope.estimation.neighbours import neighbours
from isoscope.estimation.resampled_neighbours import (
    DRAWS,
    MOST,
    SharedSearch,
    among,
    isotropic_clouds,
    jackknife_error,
    mean_length,
    round_sample_size,
)
from isoscope.statistics.sample import mix


def normal(n, d, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d)).astype(np.float32)


def test_neighbours_among_some_are_those_of_a_search_among_them():
    x, chosen = normal(120, 5), np.arange(0, 120, 2)
    part, searched = among(neighbours(x, 60), chosen, 3), neighbours(x[chosen], 3)
    assert part.complete
    assert part.distances == pytest.approx(searched.distances, rel=1e-12)
    np.testing.assert_array_equal(part.indices, searched.indices)


def test_points_of_which_too_few_are_known_are_left_out():
    x, chosen = normal(120, 5), np.arange(0, 120, 2)
    part, searched = among(neighbours(x, 4), chosen, 3), neighbours(x[chosen], 3)
    assert not part.complete
    assert 0 < len(part.indices) < part.size == 60
    rows = {tuple(row) for row in searched.indices.tolist()}
    assert all(tuple(row) in rows for row in part.indices.tolist())
    assert len(among(neighbours(x, 2), chosen, 3).indices) == 0


def hub():
    """Points, thirty of which lie around the first one: without those, only few of its neighbours are known."""
    x = normal(400, 5)
    x[370:] = x[0] + 1e-3 * normal(30, 5, seed=1)
    return x


def doubled():
    x = normal(400, 5)
    x[100:150] = x[:50]
    return x


@pytest.mark.parametrize(
    ("points", "rows", "searches"),
    [
        (normal(400, 5), np.arange(400), 1),
        (normal(400, 5), np.flatnonzero(np.arange(400) % 25), 1),
        (normal(400, 5), np.arange(0, 400, 10), 2),  # most of the neighbours are not among these
        (hub(), np.arange(370), 1),
        (doubled(), np.delete(np.arange(400), [3, 7]), 2),  # some points are there only as their second copy
        (doubled(), np.arange(20, 400), 2),
        (doubled(), np.arange(390), 1),
        (normal(400, 5), np.arange(3), 1),
    ],
    ids=["all", "most", "few", "hub", "second copies", "only second copies", "copies", "three"],
)
@pytest.mark.parametrize("k", [1, 2])
def test_one_search_answers_for_parts_of_the_points(points, rows, searches, k, monkeypatch):
    asked = []
    monkeypatch.setattr(module, "neighbours", lambda x, *args, **kwargs: asked.append(len(x)) or neighbours(x, *args, **kwargs))
    shared = SharedSearch(points)
    found, expected = shared.among(rows, k), neighbours(points[rows], k)
    np.testing.assert_allclose(found.distances[:, :k], expected.distances, rtol=1e-12)
    np.testing.assert_array_equal(found.indices[:, :k], expected.indices)
    for name in ("kept", "owner"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    assert len(asked) == searches
    shared.among(np.arange(len(points)), k)
    assert len(asked) == searches  # the points are searched once


def test_too_few_distinct_points_are_counted_among_the_chosen():
    shared = SharedSearch(np.repeat(normal(2, 3), 10, axis=0))
    with pytest.raises(IsoscopeError, match="at least 3 distinct points; there are 1"):
        shared.among(np.arange(5), 2)


def test_the_jackknife_leaves_out_each_group_of_items_once():
    """Of a mean over points the formula is known; duplicates of a point are not counted."""
    x = normal(200, 4)
    x = np.concatenate([x, x[:30]])
    item = np.arange(230) % 50
    found, unit = neighbours(x, 30), mix(item.astype(np.uint64))
    own = np.argsort(np.argsort(mix(np.unique(unit))))[np.searchsorted(np.unique(unit), unit[:200])] % module.GROUPS
    left_out = np.array([neighbours(x[:200][own != g], 2).distances.mean() for g in range(module.GROUPS)])
    error, freedom = jackknife_error(found, 2, lambda part: float(part.distances.mean()), unit)
    assert error == pytest.approx(((left_out - left_out.mean()) ** 2).sum() ** 0.5 * (1 - 1 / module.GROUPS) ** 0.5, rel=1e-9)
    sizes = np.bincount(own)
    assert freedom == pytest.approx(200**2 / (sizes**2).sum() - 1)


def test_few_items_have_no_error():
    x = normal(60, 4)
    error = jackknife_error(neighbours(x, 30), 2, lambda part: float(part.distances.mean()), np.repeat([1, 2], 30).astype(np.uint64))
    assert np.isnan(error).all()


def test_isotropic_clouds_are_what_they_are_called():
    clouds = isotropic_clouds(300, 9)
    assert len(clouds) == DRAWS
    length = np.mean(np.linalg.norm(normal(200_000, 9), axis=1))
    for cloud in clouds:
        assert cloud.found.distances.shape == (300, MOST)
        assert cloud.length == pytest.approx(length, rel=0.05)
    assert len({float(cloud.found.distances[0, 0]) for cloud in clouds}) == DRAWS
    assert isotropic_clouds(5, 3)[0].found.distances.shape == (5, 4)


def test_of_many_points_fewer_clouds_are_drawn(monkeypatch):
    monkeypatch.setattr(module, "WORK", 100**2 * 7)
    assert len(isotropic_clouds(200, 7)) == 2
    assert len(isotropic_clouds(400, 7)) == 1


def test_points_of_isotropic_clouds_are_not_kept():
    n, d = 256, 2048
    neighbours(normal(50, 8), 2)  # what is compiled once
    isotropic_clouds.cache_clear()
    tracemalloc.start()
    clouds = isotropic_clouds(n, d)
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(clouds) == DRAWS
    assert held < 0.5 * DRAWS * n * d  # their points are 4 bytes a number
    assert peak < 4 * (4 * n * d)  # a cloud, a centred copy of it, and blocks


def test_mean_length_is_that_of_centred_points():
    x = normal(3000, 6) + 50
    assert mean_length(x) == pytest.approx(np.linalg.norm(x - x.mean(0, dtype=np.float64), axis=1).mean(), rel=1e-3)


def test_samples_that_differ_by_a_few_duplicates_share_their_null():
    assert {round_sample_size(n) for n in range(4064, 4160)} == {4096}
    assert [round_sample_size(n) for n in (10, 63, 240)] == [10, 63, 240]
    assert all(abs(round_sample_size(n) / n - 1) < 0.016 for n in range(10, 70_000, 97))
