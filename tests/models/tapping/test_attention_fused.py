"""The compiled reduction of a row equals the same in float64 with numpy."""

import numpy as np
import pytest

reduce_rows = pytest.importorskip("isoscope.models.tapping.attention_fused", exc_type=ImportError).reduce_rows


@pytest.mark.parametrize("spread", [0.1, 3.0, 40.0])
def test_rows_between_their_start_and_stop(spread):
    rng = np.random.default_rng(3)
    scores = (spread * rng.standard_normal((4, 37)) + 5).astype(np.float32)
    start, stop = np.array([0, 0, 9, 20]), np.array([37, 1, 30, 20])
    values, received = np.zeros((8, 4), np.float32), np.zeros(37, np.float32)
    values[0] = 2.0  # an offset that is there already
    expected, mass = np.zeros((8, 4)), np.zeros(37)
    expected[0] = 2.0
    for i, (left, right) in enumerate(zip(start, stop, strict=True)):
        if left == right:
            continue
        row = scores[i, left:right].astype(np.float64)
        s = row - row.mean()
        e = np.exp(s - s.max())
        mass[left:right] += e / e.sum()
        expected[:, i] = [2 + row.mean(), s @ s, s.min(), s.max(), s.max(), e.sum(), e @ (s - s.max()), e[0] if left == 0 else 0]
    reduce_rows(scores, start, stop, False, values, received)
    assert values[:, :3] == pytest.approx(expected[:, :3], rel=2e-5, abs=2e-5 * max(spread, 1))
    assert values[:, 3].tolist() == [2.0] + [0.0] * 7  # a row that sees nothing is left as it was
    assert received == pytest.approx(mass, rel=2e-5, abs=1e-6)
    assert received.sum() == pytest.approx(3)


def test_rows_that_are_centred_already_are_not_moved():
    scores = np.float32([[-1, 0, 1]])
    values = np.zeros((8, 1), np.float32)
    reduce_rows(scores, np.array([0]), np.array([3]), True, values, np.zeros(3, np.float32))
    assert values[:4, 0].tolist() == [0, 2, -1, 1]
    assert values[5, 0] == pytest.approx(1 + np.exp(-1) + np.exp(-2), rel=1e-6)


def test_exponents_far_below_the_largest_score_add_nothing():
    scores = np.float32([[0, -200, -1e30]])
    values, received = np.zeros((8, 1), np.float32), np.zeros(3, np.float32)
    reduce_rows(scores, np.array([0]), np.array([3]), True, values, received)
    assert values[5, 0] == 1
    assert received.tolist() == pytest.approx([1, 0, 0], abs=1e-30)
