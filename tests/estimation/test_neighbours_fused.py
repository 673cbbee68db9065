"""Each compiled pass of the neighbour search against brute force."""

import numpy as np
import pytest

from isoscope.estimation import neighbours_fused as passes
from tests.estimation.neighbour_passes import (
    TILES,
    WHOLE,
    D,
    K,
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


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equal_rows_have_equal_hashes_whatever_the_sign_of_zero(dtype):
    points = np.array([[0.0, 1.5, -3.0], [-0.0, 1.5, -3.0], [1.5, 0.0, -3.0], [0.0, 1.5, 3.0], [0.0, 0.0, -0.0]], dtype)
    hashes, largest = hash_rows(passes, points)
    assert hashes[0] == hashes[1]
    assert len(set(hashes.tolist())) == 4
    word = np.uint64 if dtype == np.float64 else np.uint32
    np.testing.assert_array_equal(largest.astype(word).view(dtype), np.array([3, 3, 3, 3, 0], dtype))


def test_points_are_centred_scaled_and_measured():
    kept, middle = np.array([3, 60, 5, 8]), np.linspace(-1, 1, D)
    centred, half = centre_points(passes, kept, middle, 4.0)
    truth = (made_points()[kept].astype(np.float64) - middle) * 4
    np.testing.assert_allclose(centred[1:], truth[1:], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(half[1:], 0.5 * (truth[1:] ** 2).sum(1), rtol=1e-6)
    assert (centred[0] == 7).all()
    assert half[0] == 7


@pytest.mark.parametrize("tiles", [WHOLE, TILES], ids=["one", "three"])
def test_candidates_are_the_best_of_all_pairs(tiles):
    """−‖a − b‖²/2 + ‖a‖²/2 is the score, so the best candidates of a point are its nearest neighbours, best first."""
    scores, indices, limit = offer_pairs(passes, tiles)
    squares, order = brute_neighbours(made_points(), M)
    np.testing.assert_array_equal(indices, order)
    half = 0.5 * (made_points().astype(np.float64) ** 2).sum(1)
    np.testing.assert_allclose(scores, half[:, None] - squares / 2, atol=1e-5)
    np.testing.assert_array_equal(limit, scores[:, -1])


def test_candidates_are_refined_by_distance_and_of_equals_the_first_wins():
    """Half of the points are candidates of each, in no order; one point has none, and another has two."""
    points, rng = grid(), np.random.default_rng(0)
    candidates = np.stack([rng.permutation(np.delete(np.arange(len(points)), i))[:40] for i in range(len(points))])
    candidates[4], candidates[5, :-2] = -1, -1
    squares, chosen = refine_candidates(passes, points, candidates)
    for i, row in enumerate(candidates):
        others = np.sort(row[row >= 0])
        far = ((points[others].astype(float) - points[i]) ** 2).sum(1)
        best = np.argsort(far, kind="stable")[:K]
        np.testing.assert_array_equal(chosen[i, : len(best)], others[best])
        np.testing.assert_array_equal(squares[i, : len(best)], far[best])
        assert (chosen[i, len(best) :] == -1).all()


def test_a_candidate_that_its_score_rules_out_is_not_looked_at():
    """Point 1 is nearest, but its score promises a distance of at least 8; 2, 3, 4 and 5 come first and are all nearer than that."""
    points = np.array([[0.0], [0.5], [1.0], [-1.0], [2.0], [-2.0]], np.float32)
    squares, chosen = np.full((6, K), np.inf), np.full((6, K), -1, np.int64)
    scores, candidates = np.array([[-8, 1, 1, 0, 0]] * 6, np.float32), np.array([[1, 2, 3, 4, 5]] * 6, np.int32)
    passes.refine(points, np.arange(6), 0, 1, scores, candidates, np.zeros(6), 1.0, squares, chosen)
    assert chosen[0].tolist() == [2, 3, 4, 5]
    assert squares[0].tolist() == [1, 1, 4, 4]


@pytest.mark.parametrize("points", [made_points(), grid()], ids=["gaussian", "grid"])
def test_a_second_search_finds_the_nearest_of_all(points):
    rows = np.array([0, 12, 41, len(points) - 1])
    squares, chosen = search_again(passes, points, rows, -np.inf)
    truth, order = brute_neighbours(points, K)
    np.testing.assert_array_equal(chosen[rows], order[rows])
    np.testing.assert_allclose(squares[rows], truth[rows], rtol=1e-13)
    assert (chosen[np.setdiff1d(np.arange(len(points)), rows)] == -1).all()
    assert (search_again(passes, points, rows, np.inf)[1] == -1).all(), "no product is high enough"
