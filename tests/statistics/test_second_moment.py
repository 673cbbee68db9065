"""Second moments: exact after any merge, and in float32 wherever the cloud lies."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from isoscope.statistics.second_moment import SecondMoment


def moment(*blocks):
    m = SecondMoment(blocks[0].shape[1])
    for block in blocks:
        m.update(block)
    return m


def close(m, x, rel=1e-9):
    """Mean, covariance and uncentred moment against those of float64 points, relative to the largest entry."""
    x = np.asarray(x, dtype=np.float64)
    assert m.n == len(x)
    expected = np.cov(x.T).reshape(m.d, m.d)
    np.testing.assert_allclose(m.covariance, expected, atol=rel * np.abs(expected).max())
    np.testing.assert_allclose(m.mean, x.mean(0), rtol=rel, atol=rel * np.abs(x).max())
    uncentred = x.T @ x / len(x)
    np.testing.assert_allclose(m.raw_moment, uncentred, atol=rel * np.abs(uncentred).max())


def cut(x, cuts):
    return [part for part in np.split(x, sorted(c % (len(x) + 1) for c in cuts)) if len(part)]


@settings(max_examples=40, deadline=None)
@given(n=st.integers(2, 60), d=st.integers(1, 12), cuts=st.lists(st.integers(0, 60), max_size=5), seed=st.integers(0, 99), data=st.data())
def test_any_split_in_any_order(n, d, cuts, seed, data):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d)) * 10.0 ** rng.integers(-3, 4, d) + rng.integers(-50, 50)
    parts = data.draw(st.permutations([moment(part) for part in cut(x, cuts)]))
    while len(parts) > 1:
        at = data.draw(st.integers(0, len(parts) - 2))
        parts[at : at + 2] = [parts[at].merge(parts[at + 1])]
    close(parts[0], x)
    close(moment(*cut(x, cuts)), x)


@pytest.mark.parametrize(("a", "b", "kept"), [(3, 4, True), (4, 4, True), (4, 5, False), (3, 30, False), (30, 3, False), (30, 40, False)])
def test_points_and_matrices_merge(a, b, kept):
    """points + points (which may become a matrix), points + matrix, matrix + points, matrix + matrix; neither is changed."""
    x = np.random.default_rng(a + b).standard_normal((a + b, 8)) + 7
    left, right = moment(x[:a]), moment(x[a:])
    before = [{key: value.copy() for key, value in part.state().items()} for part in (left, right)]
    merged = left.merge(right)
    assert (merged.points is not None) is kept
    close(merged, x)
    close(right.merge(left), x)
    merged.update(x)
    for part, state in zip((left, right), before, strict=True):
        assert all(np.array_equal(part.state()[key], value) for key, value in state.items())


def test_the_switch_comes_with_the_point_after_d():
    x = np.random.default_rng(0).standard_normal((7, 6)) + 3
    m = moment(*x[:6, None])
    assert m.points.tolist() == x[:6].tolist()
    close(m, x[:6])
    m.update(x[6:])
    assert m.points is None
    close(m, x)


def test_held_points_are_copies():
    x = np.ones((2, 5))
    m = moment(x)
    x[:] = 9
    assert m.points.tolist() == np.ones((2, 5)).tolist()


def test_an_empty_moment_adds_nothing():
    x = np.random.default_rng(1).standard_normal((20, 4))
    close(moment(x).merge(SecondMoment(4)), x)
    close(SecondMoment(4).merge(moment(x)), x)
    assert SecondMoment(4).merge(SecondMoment(4)).n == 0


@pytest.mark.parametrize("n", [3, 40])
def test_merging_far_shifts(n):
    """Two clouds a thousand standard deviations apart: the covariance of the union, which is mostly their distance, and within it."""
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal((40, 8)), rng.standard_normal((n, 8)) + 1000
    both = np.concatenate([a, b])
    merged = moment(a).merge(moment(b))
    close(merged, both)
    # Across the line that joins them the spread is 1, a millionth of that along it.
    across = np.linalg.qr(np.column_stack([np.ones(8), rng.standard_normal((8, 7))]))[0][:, 1:]
    expected = across.T @ np.cov(both.T) @ across
    np.testing.assert_allclose(across.T @ merged.covariance @ across, expected, atol=1e-8 * np.abs(expected).max())


def blocks_of(x, rows):
    return [x[i : i + rows] for i in range(0, len(x), rows)]


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize("rows", [1, 2, 64, 1000])
def test_float32_stays_accurate_when_the_cloud_moves(kind, rows):
    """The first block lies a thousand standard deviations from all later ones, as position 0 of a causal model does."""
    rng = np.random.default_rng(3)
    d = 16
    start = rng.standard_normal((max(rows, 20), d)).astype(np.float32)
    later = (rng.standard_normal((2000, d)) + 1000).astype(np.float32)
    given = (lambda x: torch.from_numpy(x)) if kind == "torch" else (lambda x: x)
    m = moment(*(given(block) for block in [*blocks_of(start, rows), *blocks_of(later, rows)]))
    both = np.concatenate([start, later]).astype(np.float64)
    close(m, both, rel=1e-7)
    expected = np.cov(later.T.astype(np.float64))
    across = np.linalg.qr(np.column_stack([np.ones(d), rng.standard_normal((d, d - 1))]))[0][:, 1:]
    np.testing.assert_allclose(across.T @ m.covariance @ across, across.T @ np.cov(both.T) @ across, atol=2e-5 * np.abs(expected).max())


@pytest.mark.parametrize("offset", [0, 100, 10_000])
def test_float32_under_an_offset_has_no_negative_eigenvalue(offset):
    x = (np.random.default_rng(4).standard_normal((3000, 24)) + offset).astype(np.float32)
    m = moment(*blocks_of(x, 500))
    values = np.linalg.eigvalsh(m.covariance)
    expected = np.linalg.eigvalsh(np.cov(x.T.astype(np.float64)))
    np.testing.assert_allclose(values, expected, rtol=2e-6)


def test_sums_of_single_precision_rows_that_come_alone():
    """Rows that come one at a time, the first far from all others: as exact as in one block."""
    x = np.random.default_rng(5).standard_normal((300, 4)).astype(np.float32)
    x[0] += 3000
    a, b = moment(*x[:, None]), moment(x)
    close(a, x, rel=1e-7)
    np.testing.assert_allclose(a.covariance, b.covariance, rtol=1e-5, atol=1e-7 * np.abs(b.covariance).max())


@pytest.mark.parametrize("n", [0, 3, 8, 9, 50])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_state_is_everything(n, kind, tmp_path):
    from safetensors.numpy import load_file, save_file

    x = (np.random.default_rng(6).standard_normal((n, 8)) + 5).astype(kind)
    m = moment(x) if n else SecondMoment(8)
    save_file(m.state(), tmp_path / "m.safetensors")
    for again in (SecondMoment.from_state(m.state()), SecondMoment.from_state(load_file(tmp_path / "m.safetensors"))):
        assert again.n == n
        for key, value in m.state().items():
            assert again.state()[key].dtype == value.dtype
            np.testing.assert_array_equal(again.state()[key], value)
        if n > 1:
            np.testing.assert_array_equal(again.covariance, m.covariance)
        again.update(x[::-1].copy())
        if n > 8:
            close(again, np.concatenate([x, x]), rel=1e-6)


@pytest.mark.parametrize(("d", "rank", "n"), [(32, 16, 4600), (96, 95, 3000), (128, 40, 20000)])
def test_float32_products_leave_an_empty_direction_empty(d, rank, n):
    """Rounding of the products is no variance: the rank is that of the cloud, and real eigenvalues keep their value.

    By Weyl's inequality rounding moves each of them by no more than the norm of what was rounded, which is a part of the largest.
    """
    from isoscope.estimation.eigenvalues import Spectrum

    rng = np.random.default_rng(d)
    x = (rng.standard_normal((n, rank)) @ rng.standard_normal((rank, d)) + 3).astype(np.float32)
    moment = SecondMoment(d)
    for start in range(0, n, 1000):
        moment.update(x[start : start + 1000])
    values = Spectrum.of(moment, centred=True).values
    exact = np.linalg.eigvalsh(np.cov(x.T.astype(np.float64)))[::-1]
    assert int((values > 0).sum()) == rank
    np.testing.assert_allclose(values[:rank], exact[:rank], rtol=1e-6, atol=exact[0] * 2.0**-24)


@pytest.mark.parametrize("many", [4, 40])
def test_vectors_that_are_held_merge_alike_however_they_were_batched(many):
    """Bit for bit: of a cloud without full rank the last digits show in the effective rank."""
    rng = np.random.default_rng(4)
    few, others = rng.standard_normal((5, 6)) + 3, rng.standard_normal((many, 6)) + 3
    together, apart, rest = SecondMoment(6), SecondMoment(6), moment(others)
    together.update(few)
    for row in few:
        apart.update(row[None])
    expected = together.merge(rest).state()
    for name, value in apart.merge(rest).state().items():
        np.testing.assert_array_equal(value, expected[name])


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("columns", [5, 1024])
def test_blocks_of_columns_and_parts_of_the_points(threads, columns, monkeypatch):
    """However wide the blocks are, and however many threads share the points: the same moments."""
    monkeypatch.setattr("isoscope.statistics.second_moment.COLUMNS", columns)
    monkeypatch.setattr("isoscope.statistics.second_moment.SMALL_PRODUCT", 0)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    x = torch.randn(40, 12, generator=torch.Generator().manual_seed(1), dtype=torch.float64) + 7
    close(moment(x[:25], x[25:27], x[27:]), x.numpy())
