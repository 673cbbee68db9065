"""The compiled pass over a block against numpy in float64, in both orders of memory."""

import numpy as np
import pytest

from isoscope.statistics.kernel_fused import ROWS, add_sums

TINY = 1e-30


def points(g: int, t: int, d: int, *, crosswise: bool) -> np.ndarray:
    """Points (g, t, d) away from the origin; crosswise in memory as the heads of a projection, (t, g, d)."""
    x = (np.random.default_rng(0).standard_normal((t, g, d)) * 3 + 1).astype(np.float32).swapaxes(0, 1)
    return x if crosswise else np.ascontiguousarray(x)


def brute(x: np.ndarray, counted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """‖x‖² of each point and (3, g, d) Σu, Σx and Σu² of those that count."""
    y = x.astype(np.float64)
    norm2 = (y**2).sum(-1)
    u = y / np.sqrt(norm2)[..., None]
    return norm2, np.stack([(part * counted[..., None]).sum(1) for part in (u, y, u**2)])


@pytest.mark.parametrize("crosswise", [False, True])
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, ROWS - 1, 4), (2, ROWS, 5), (4, ROWS + 1, 3), (2, 3 * ROWS + 7, 9)], ids=str)
def test_sums_are_those_of_float64(shape: tuple[int, int, int], crosswise: bool) -> None:
    x = points(*shape, crosswise=crosswise)
    counted = np.random.default_rng(1).random(shape[:2]) < 0.7
    norm2, sums = add_sums(x, counted.astype(np.float32), TINY)
    lengths, truth = brute(x, counted)
    np.testing.assert_allclose(norm2, np.where(counted, lengths, 1.0), rtol=2e-6)
    np.testing.assert_allclose(sums, truth, rtol=2e-6, atol=2e-6 * (1 + np.abs(truth).max()))


@pytest.mark.parametrize("crosswise", [False, True])
def test_a_point_without_a_usable_length_is_in_no_sum(crosswise: bool) -> None:
    """Zero, shorter than the limit, too long for float32, NaN and infinity; their squared lengths tell the caller which they are."""
    x = np.array(points(2, 7, 3, crosswise=False))
    x[0, :5] = [[0, 0, 0], [1e-16, 0, 0], [3e20, 0, 0], [np.nan, 1, 1], [-np.inf, 1, 1]]
    block = np.ascontiguousarray(x.swapaxes(0, 1)).swapaxes(0, 1) if crosswise else x
    norm2, sums = add_sums(block, np.ones((2, 7), np.float32), TINY)
    np.testing.assert_array_equal(norm2[0, :5], np.array([0, np.float32(1e-16) ** 2, np.inf, np.nan, np.inf], np.float32))
    for head, first in ((0, 5), (1, 0)):
        _, truth = brute(x[head : head + 1, first:], np.ones((1, 7 - first)))
        np.testing.assert_allclose(sums[:, head], truth[:, 0], rtol=1e-5)


def test_long_sums_keep_the_digits_of_a_float32_point() -> None:
    """Fifty thousand points around 1000: one running sum in float32 would be wrong in the fourth digit."""
    x = points(1, 50_000, 2, crosswise=False) + np.float32(1000)
    _, sums = add_sums(x, np.ones((1, 50_000), np.float32), TINY)
    np.testing.assert_allclose(sums[1, 0], x[0].astype(np.float64).sum(0), rtol=1e-6)
    assert not np.allclose(np.cumsum(x[0], axis=0, dtype=np.float32)[-1], sums[1, 0], rtol=1e-6, atol=0)
