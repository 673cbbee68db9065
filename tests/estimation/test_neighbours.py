"""Exact neighbours against a search in float64 by direct differences, on clouds that break others."""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from isoscope.core.errors import IsoscopeError
from isoscope.estimation import neighbours as module
from isoscope.estimation import neighbours_fused, neighbours_plain
from isoscope.estimation.neighbours import Neighbours, distinct, estimate, neighbours
from tests.estimation.neighbour_clouds import CLOUDS, cloud, far_sinks, sinks, tripled


def brute(points: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Distances, indices and the distinct points, all by direct differences in float64."""
    kept = np.sort(np.unique(points + 0.0, axis=0, return_index=True)[1])
    x = points[kept].astype(np.float64)
    squares = np.stack([((x - row) ** 2).sum(1) for row in x])
    np.fill_diagonal(squares, np.inf)
    order = np.argsort(squares, axis=1, kind="stable")[:, :k]
    return np.sqrt(np.take_along_axis(squares, order, 1)), order, kept


def same(found: Neighbours, points: np.ndarray, k: int) -> None:
    distances, indices, kept = brute(points, k)
    np.testing.assert_array_equal(found.kept, kept)
    assert found.duplicates == len(points) - len(kept)
    np.testing.assert_array_equal(points[kept[found.owner]], points)
    np.testing.assert_array_equal(distinct(points), kept)
    np.testing.assert_allclose(found.distances, distances, rtol=1e-13)
    assert (np.diff(found.distances, axis=1) >= 0).all()
    np.testing.assert_array_equal(found.indices, indices)


@pytest.mark.parametrize("k", [2, 30])
@pytest.mark.parametrize("name", CLOUDS)
def test_it_is_the_search_in_float64(name: str, k: int) -> None:
    points = CLOUDS[name]()
    same(neighbours(points, k, threads=1), points, k)


@pytest.mark.parametrize("exponent", [-200, 200])
def test_float64_whose_squares_overflow_or_vanish(exponent: int) -> None:
    points = cloud(400).astype(np.float64)
    scaled = neighbours(points * 2.0 ** (3 * exponent), 3)
    plain = neighbours(points, 3)
    np.testing.assert_array_equal(scaled.indices, plain.indices)
    np.testing.assert_allclose(scaled.distances * 2.0 ** (-3 * exponent), plain.distances, rtol=1e-13)


@pytest.mark.parametrize("name", ["clean", "tight clusters", "a grid", "sinks"])
def test_threads_change_nothing(name: str) -> None:
    points = CLOUDS[name]()
    one, two, five = (neighbours(points, 7, threads=threads) for threads in (1, 2, 5))
    for other in (two, five):
        np.testing.assert_array_equal(one.indices, other.indices)
        np.testing.assert_array_equal(one.distances, other.distances)


def test_it_takes_the_threads_that_blas_has(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    begin = module._Search.__init__

    def record(self: module._Search, *given: object) -> None:
        seen.append(given[-1])
        begin(self, *given)

    monkeypatch.setattr(module._Search, "__init__", record)
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            neighbours(cloud(50), 2)
    assert seen == [1, 2]


def test_as_many_as_there_are_within_reach() -> None:
    points = cloud(40)
    for reach, k in ((None, 2), (1, 2), (10, 10), (39, 39), (128, 39)):
        found = neighbours(points, 2, reach=reach)
        assert found.distances.shape == (40, k)
        same(found, points, k)


def test_three_points() -> None:
    found = neighbours(np.array([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]]), 2)
    np.testing.assert_allclose(found.distances, [[1, 5], [3 * 2**0.5, 5], [1, 3 * 2**0.5]])
    assert found.indices.tolist() == [[2, 1], [2, 0], [0, 1]]


def test_zero_has_no_sign() -> None:
    found = neighbours(np.array([[0.0, 1.0], [-0.0, 1.0], [2.0, -0.0], [2.0, 0.0], [5.0, 5.0]], dtype=np.float32), 1)
    assert found.kept.tolist() == [0, 2, 4]
    assert found.duplicates == 2


@pytest.mark.parametrize("passes", [neighbours_fused, neighbours_plain])
def test_equal_hashes_are_no_proof_of_equal_points(passes: object, monkeypatch: pytest.MonkeyPatch) -> None:
    def alike(bits: np.ndarray, sign: object, shift: object, factors: object, hashes: np.ndarray, largest: np.ndarray) -> None:
        passes.fingerprints(bits, sign, shift, factors, hashes, largest)
        hashes %= 3

    stub = type("Passes", (), {**vars(passes), "fingerprints": staticmethod(alike)})
    monkeypatch.setattr(module, "passes", lambda: stub)
    points = tripled()[:500]
    same(neighbours(points, 2), points, 2)


def test_what_has_no_neighbours_is_refused() -> None:
    broken = cloud(20)
    broken[4, 2], broken[7, 1], broken[7, 2] = np.nan, np.inf, np.nan
    for points in (broken, broken.astype(np.float64)):
        with pytest.raises(IsoscopeError, match=r"^2 of 20 points hold NaN or infinity"):
            neighbours(points, 2)
    with pytest.raises(IsoscopeError, match=r"^2 neighbours of each point need at least 3 distinct points; there are 1\.$"):
        neighbours(np.ones((50, 8), np.float32), 2)
    with pytest.raises(IsoscopeError, match="there are 0"):
        neighbours(np.ones((0, 8)), 2)
    with pytest.raises(IsoscopeError, match="rows of a matrix"):
        neighbours(np.ones(8), 2)


def swapped() -> np.ndarray:
    """Points in pairs of pairs, much nearer to each other than float32 products at this length can tell."""
    x = np.repeat(cloud(150, 64) * np.float32(30), 8, axis=0)
    return x + np.float32(2e-3) * cloud(1200, 64, seed=3)


def test_doubt_is_settled_and_without_the_bound_the_answer_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    points = swapped()
    found = neighbours(points, 2)
    assert found.again == len(points)
    same(found, points, 2)
    monkeypatch.setattr(module, "rounding", lambda d: 0.0)
    monkeypatch.setattr(module, "spare", lambda k, d: 0)
    unsafe = neighbours(points, 2)
    assert unsafe.again < len(points)
    assert (unsafe.indices != found.indices).any()


def test_the_bound_holds_and_is_not_idle() -> None:
    """What is left of ‖a − b‖² after products in float32 is above the bound for every pair, by less than a hundred times what it allows."""
    for d in (3, 64, 768):
        exact = 50 * np.random.default_rng(d).standard_normal((300, d))
        x = exact.astype(np.float32)
        lengths = (x.astype(np.float64) ** 2).sum(1)
        squares = np.stack([((exact - row) ** 2).sum(1) for row in exact])
        both = lengths[:, None] + lengths
        error = (both - 2.0 * (x @ x.T)) - squares
        assert (error <= module.rounding(d) * both).all()
        assert error.max() * 1000 > module.rounding(d) * lengths.max()


def test_clean_points_leave_no_doubt_and_far_points_only_among_themselves() -> None:
    assert neighbours(cloud(1300, 256), 2).again == 0
    assert neighbours(cloud(1300, 256), 60).again < 13
    for points in (sinks(), far_sinks()):
        length = np.linalg.norm(points, axis=1)
        assert neighbours(points, 2).again <= (length > 100).sum()


def test_blocks_bound_the_memory() -> None:
    import tracemalloc

    points = cloud(6000, 32)
    neighbours(points[:100], 2)
    for threads in (1, 2):
        tracemalloc.start()
        neighbours(points, 2, threads=threads)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < points.nbytes + threads * 4 * module.ROWS * module.COLUMNS + 1e6  # all products would be 144 MB, or 72


def test_progress_adds_up_to_the_points() -> None:
    for threads in (1, 2):
        told: list[int] = []
        neighbours(tripled(), 2, threads=threads, progress=told.append)
        assert sum(told) == 1300
        assert min(told) >= 0
        assert threads > 1 or len(told) > 2  # of two threads only one reports, and the other may have done all the work


def test_an_error_in_a_thread_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*given: object) -> None:
        raise MemoryError

    stub = type("Passes", (), {**vars(neighbours_fused), "offer": staticmethod(broken)})
    monkeypatch.setattr(module, "passes", lambda: stub)
    with pytest.raises(MemoryError):
        neighbours(cloud(), 2, threads=2)


def test_every_pair_is_in_one_tile() -> None:
    for n in (1, 2, 255, 257, 513, 1500, 4500):
        seen = np.zeros((n, n), dtype=np.int8)
        for rows, columns in module._tiles(0, n):
            seen[rows, columns] += 1
            assert rows.stop - rows.start <= module.ROWS
            assert columns.stop - columns.start <= module.COLUMNS
        assert (np.triu(seen) == np.triu(np.ones((n, n), dtype=np.int8))).all()


def test_the_estimate_grows_with_pairs() -> None:
    few, many = estimate(4096, 16, threads=1), estimate(40960, 16, threads=1)
    assert 0 < few < 60
    assert 10 < many / few < 1000
