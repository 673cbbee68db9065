"""The kernel against brute force in float64, for numpy arrays and torch tensors."""

import numpy as np
import pytest
import torch

from isoscope.statistics.kernel import Sums, as_block, as_float64, block_sums, namespace

KINDS = {
    "numpy-float32": (lambda x: x.astype(np.float32), 2e-6),
    "numpy-float64": (lambda x: x, 1e-12),
    "torch-float32": (lambda x: as_block(torch.from_numpy(x.astype(np.float32))), 2e-6),
    "torch-float64": (lambda x: as_block(torch.from_numpy(x)), 1e-12),
}
SHAPES = [(1, 1, 3), (5, 7, 4), (3, 64, 2), (2, 65, 5), (9, 187, 3), (131, 1, 6), (17, 13, 8), (3, 600, 2)]
"""Many of them divide no tile, whatever its size."""


def brute(x, mask):
    g, _, d = x.shape
    sums = Sums.nothing(g, d)
    for i in range(g):
        for point, counts in zip(x[i].astype(np.float64), mask[i], strict=True):
            if not counts:
                continue
            if not np.isfinite(point).all():
                sums.nonfinite += 1
                continue
            norm = np.sqrt((point**2).sum())
            sums.n[i] += 1
            sums.total[i] += point
            sums.norm[i] += norm
            sums.norm2[i] += norm**2
            if norm == 0:
                sums.zeros[i] += 1
                continue
            sums.directions[i] += point / norm
            sums.squared[i] += (point / norm) ** 2
    return sums


def agree(found, expected, rel):
    assert found.nonfinite == expected.nonfinite
    for name in ("n", "zeros"):
        assert getattr(found, name).tolist() == getattr(expected, name).tolist()
    for name in ("total", "directions", "squared", "norm", "norm2"):
        value, truth = getattr(found, name), getattr(expected, name)
        assert value.dtype == np.float64
        assert value.shape == truth.shape
        np.testing.assert_allclose(value, truth, rtol=rel, atol=rel * (1 + np.abs(truth).max(initial=0)), err_msg=name)


@pytest.fixture(params=[*KINDS, "numpy-float32-by-tiles"])
def kind(request, monkeypatch):
    if request.param.endswith("-by-tiles"):  # as without numba
        monkeypatch.setattr("isoscope.statistics.kernel.load_compiled", lambda name: None)
    return KINDS[request.param.removesuffix("-by-tiles")]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sums_of_a_block(kind, shape):
    convert, rel = kind
    x = np.random.default_rng(0).standard_normal(shape) * 3 + 1
    agree(block_sums(convert(x)), brute(x, np.ones(shape[:2], dtype=bool)), rel)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_masks_zeros_and_what_is_not_finite(kind, shape):
    convert, rel = kind
    rng = np.random.default_rng(1)
    x = rng.standard_normal(shape)
    mask = rng.random(shape[:2]) < 0.6
    fate = rng.integers(0, 12, shape[:2])
    x[fate == 0] = 0
    x[..., 0][fate == 1] = np.nan
    x[..., -1][fate == 2] = -np.inf
    agree(block_sums(convert(x), mask), brute(x, mask), rel)


def test_masked_positions_reach_nothing(kind):
    """Whatever stands at a masked position, the sums are the same to the last bit."""
    convert, _ = kind
    rng = np.random.default_rng(2)
    x, mask = rng.standard_normal((6, 50, 7)), rng.random((6, 50)) < 0.5
    found = []
    for filler in (0.0, 5.0, np.nan, np.inf):
        y = np.where(mask[..., None], x, filler)
        found.append(block_sums(convert(y), mask))
    for other in found[1:]:
        assert other.nonfinite == 0
        for name in ("n", "zeros", "total", "directions", "squared", "norm", "norm2"):
            np.testing.assert_array_equal(getattr(found[0], name), getattr(other, name), err_msg=name)


def test_points_that_lie_crosswise_in_memory(kind):
    """Heads of a projection: (t, g, d) in memory, seen as (g, t, d)."""
    convert, rel = kind
    rng = np.random.default_rng(7)
    x, mask = rng.standard_normal((200, 3, 8)) + 1, rng.random((3, 200)) < 0.8
    block = convert(x).swapaxes(0, 1)
    agree(block_sums(block, mask), brute(x.swapaxes(0, 1), mask), rel)


def test_the_block_is_not_changed(kind):
    convert, _ = kind
    x = np.random.default_rng(3).standard_normal((3, 5, 2))
    x[1, 2] = np.nan
    block = convert(x.copy())
    before = as_float64(block).copy()
    block_sums(block)
    np.testing.assert_array_equal(as_float64(block), before)


def test_directions_only_leaves_the_rest_out(kind):
    convert, rel = kind
    x = np.random.default_rng(4).standard_normal((3, 90, 4))
    short, whole = block_sums(convert(x), directions_only=True), block_sums(convert(x))
    assert not short.total.any()
    assert not short.squared.any()
    np.testing.assert_allclose(short.directions, whole.directions, rtol=rel)
    np.testing.assert_allclose(short.norm, whole.norm, rtol=rel)


@pytest.mark.parametrize("shape", [(0, 4, 3), (4, 0, 3)])
def test_empty_blocks(kind, shape):
    sums = block_sums(kind[0](np.zeros(shape)))
    assert sums.n.tolist() == [0.0] * shape[0]
    assert sums.directions.shape == (shape[0], 3)


def test_chain_is_the_blocks_side_by_side():
    x = np.random.default_rng(5).standard_normal((7, 20, 4))
    x[2, 3] = np.inf
    agree(Sums.chain([block_sums(x[:3]), block_sums(x[3:4]), block_sums(x[4:])]), brute(x, np.ones((7, 20), dtype=bool)), 1e-12)


def test_long_float32_segments_do_not_drift():
    """A hundred thousand points far from the origin: the sums are those of float64 to seven digits."""
    x = (np.random.default_rng(6).standard_normal((1, 100_000, 4)) + 100).astype(np.float32)
    sums, truth = block_sums(x), x.astype(np.float64)[0]
    np.testing.assert_allclose(sums.total[0], truth.sum(0), rtol=1e-6)
    np.testing.assert_allclose(sums.directions[0], (truth / np.linalg.norm(truth, axis=1, keepdims=True)).sum(0), rtol=1e-6)


def test_a_point_has_a_direction_of_length_one_or_none(kind):
    """However short a point is, it is either counted as zero and in no sum of directions, or it is there in full length."""
    convert, _ = kind
    x = np.array([10.0**-k for k in range(31)])[:, None, None] * np.array([0.6, 0.8])
    sums = block_sums(convert(x))
    assert np.linalg.norm(sums.directions, axis=1) == pytest.approx(1 - sums.zeros, abs=1e-5)
    assert sums.squared.sum() == pytest.approx(31 - sums.zeros.sum(), abs=1e-4)
    assert sums.zeros[:12].tolist() == [0.0] * 12


@pytest.mark.filterwarnings("error")
def test_what_is_not_finite_warns_of_nothing(kind):
    x = np.random.default_rng(7).standard_normal((4, 70, 3))
    x[1, 5], x[2, 60, 1], x[3, 0, 2] = np.nan, np.inf, -np.inf
    assert block_sums(kind[0](x)).nonfinite == 3


@pytest.mark.parametrize("threads", [1, 2])
def test_as_block(threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        x = torch.arange(6, dtype=torch.bfloat16).reshape(2, 3).requires_grad_()
        assert as_float64(as_block(x)).tolist() == [[0, 1, 2], [3, 4, 5]]
        assert str(as_block(x).dtype).endswith("float32")
        tensor = torch.zeros(2, 3)
        as_block(tensor)[0, 0] = 5
        assert tensor[0, 0] == 5  # the memory is shared
    finally:
        torch.set_num_threads(before)
    shared = np.zeros((2, 3), dtype=np.float32)
    assert as_block(shared) is shared
    assert as_block(shared.astype(np.float16)).dtype == np.float32
    assert namespace(tensor) is torch
    assert namespace(shared) is np
