"""Each pass of the neighbour search in numpy: the result of the compiled one, and of brute force."""

import numpy as np
import pytest

from isoscope.estimation import neighbours as module
from isoscope.estimation import neighbours_fused as fused
from isoscope.estimation import neighbours_plain as passes
from isoscope.estimation.neighbours import neighbours
from tests.estimation.neighbour_clouds import CLOUDS
from tests.estimation.neighbour_passes import (
    TILES,
    WHOLE,
    D,
    M,
    brute_neighbours,
    centre_points,
    grid,
    hash_rows,
    made_points,
    offer_pairs,
    refine_candidates,
    search_again,
)


@pytest.fixture(autouse=True, params=[None, 20], ids=["at-once", "in-steps"])
def steps(request, monkeypatch):
    """Inputs are small enough for one step; by 20 values at a time they are worked on three rows, or fewer, after each other."""
    if request.param:
        monkeypatch.setattr(passes, "PAIRS", request.param)


def test_steps_cover_every_row_once():
    for start, stop, width in ((0, 10, 0), (3, 70, 6), (5, 5, 2), (0, 9, 1 << 20)):
        rows = [row for at in passes._steps(start, stop, width) for row in range(at.start, at.stop)]
        assert rows == list(range(start, stop))
        assert all((at.stop - at.start) * width <= max(passes.PAIRS, width) for at in passes._steps(start, stop, width))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_hashes_are_the_compiled_ones(dtype):
    """Equal hashes must mean the same in both: which points are duplicates does not depend on numba."""
    points = np.concatenate([made_points(), np.zeros((1, D)), -np.zeros((1, D))]).astype(dtype)
    for ours, theirs in zip(hash_rows(passes, points), hash_rows(fused, points), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    hashes, largest = hash_rows(passes, points)
    assert len(set(hashes.tolist())) == len(points) - 1
    word = np.uint64 if dtype == np.float64 else np.uint32
    np.testing.assert_array_equal(largest.astype(word).view(dtype), np.abs(points).max(1))


def test_points_are_centred_as_compiled():
    kept, middle = np.array([3, 60, 5, 8, 9, 10, 11]), np.linspace(-1, 1, D)
    (ours, half), (theirs, halves) = (centre_points(one, kept, middle, 4.0) for one in (passes, fused))
    np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_allclose(half, halves, rtol=1e-14)


@pytest.mark.parametrize("tiles", [WHOLE, TILES], ids=["one", "three"])
def test_candidates_are_the_compiled_ones(tiles):
    for ours, theirs in zip(offer_pairs(passes, tiles), offer_pairs(fused, tiles), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(offer_pairs(passes, tiles)[1], brute_neighbours(made_points(), M)[1])


def test_candidates_are_refined_as_compiled():
    points, rng = grid(), np.random.default_rng(0)
    candidates = np.stack([rng.permutation(np.delete(np.arange(len(points)), i))[:40] for i in range(len(points))])
    candidates[4], candidates[5, :-2] = -1, -1
    for ours, theirs in zip(refine_candidates(passes, points, candidates), refine_candidates(fused, points, candidates), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("points", [made_points(), grid()], ids=["gaussian", "grid"])
def test_a_second_search_finds_the_nearest_of_all(points):
    rows = np.array([0, 12, 41, len(points) - 1])
    for needed in (-np.inf, -1.0):
        (squares, chosen), (theirs, others) = (search_again(one, points, rows, needed) for one in (passes, fused))
        np.testing.assert_array_equal(chosen, others)
        np.testing.assert_allclose(squares, theirs, rtol=1e-13)
    np.testing.assert_array_equal(search_again(passes, points, rows, -np.inf)[1][rows], brute_neighbours(points, 4)[1][rows])


@pytest.mark.parametrize("name", ["clean", "tripled", "near duplicates", "tight clusters", "far sinks", "a grid", "float64", "integers"])
def test_without_numba_it_is_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    points = CLOUDS[name]()
    assert module.passes() is fused
    compiled = neighbours(points, 5)
    monkeypatch.setattr(module, "passes", lambda: passes)
    plain = neighbours(points, 5)
    np.testing.assert_array_equal(plain.indices, compiled.indices)
    np.testing.assert_allclose(plain.distances, compiled.distances, rtol=1e-13)
    np.testing.assert_array_equal(plain.kept, compiled.kept)
