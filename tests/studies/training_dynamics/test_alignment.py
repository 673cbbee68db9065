"""Alignment and its permutation null, against every permutation and at known chance."""

import numpy as np
import pytest

from isoscope.estimation.inference import Estimate
from isoscope.studies.training_dynamics.alignment import alignment, alignment_outcome, shuffle_labels, squared_cosines, surely_falls


def test_alignment_counts_out_every_deal():
    """Against all 24 permutations, one by one."""
    from itertools import permutations

    rng = np.random.default_rng(0)
    q, k = rng.normal(size=(2, 4, 16))
    squares = squared_cosines(q, k)
    cosine = lambda a, b: (a @ b) ** 2 / (a @ a) / (b @ b)  # noqa: E731
    own = np.mean([cosine(q[i], k[i]) for i in range(4)])
    every = [np.mean([cosine(q[i], k[j]) for i, j in enumerate(order)]) for order in permutations(range(4))]
    found = alignment([squares])
    assert found.value == pytest.approx(own)
    assert found.p == np.mean(np.array(every) >= own - 1e-12)
    assert found.null == pytest.approx(np.mean([cosine(q[i], k[j]) for i in range(4) for j in range(4) if i != j]))


def test_alignment_finds_what_is_there_and_nothing_else():
    rng = np.random.default_rng(1)
    seen = []
    for _ in range(100):
        q, k = rng.normal(size=(2, 5, 3, 32))
        seen.append(alignment([squared_cosines(a, b) for a, b in zip(q, k, strict=True)]).p)
    assert 0.01 <= np.mean(np.array(seen) < 0.05) <= 0.11
    q = rng.normal(size=(5, 3, 32))
    k = q * rng.choice([-1, 1], size=(5, 3, 1)) + 0.5 * rng.normal(size=q.shape)
    found = alignment([squared_cosines(a, b) for a, b in zip(q, k, strict=True)])
    assert found.p < 0.001
    assert found.value > 0.6
    assert found.null == pytest.approx(1 / 32, abs=0.03)
    assert found.null_sd < 0.03


def test_alignment_of_one_head_has_no_null():
    found = alignment([np.array([[0.4]])])
    assert found.value == 0.4
    assert np.isnan([found.null, found.null_sd, found.p]).all()


def test_shuffle_labels_are_at_chance():
    rng = np.random.default_rng(2)
    q = rng.normal(size=(6, 32))
    control, p = shuffle_labels([(q, -q)])
    assert p < 0.001
    assert control.value == pytest.approx((1 + 10 / 32) / 11, abs=0.03)  # own pairs, which have cos² 1, come in one of eleven
    _, p = shuffle_labels([(q, rng.normal(size=(6, 32)))])
    assert p > 0.01


@pytest.mark.parametrize(
    ("p", "moved", "grown", "excess", "said"),
    [
        (0.01, [0.1, 0.2, 0.1], (0.05, 0.2), (0.1, 0.2), "holds"),
        (0.01, [0.1, -0.01, 0.1], (-0.05, 0.2), (0.1, 0.2), "undecided"),
        (0.2, [0.1, 0.2, 0.1], (0.05, 0.2), (-0.1, 0.2), "undecided"),
        (0.9, [-0.1, -0.2, -0.1], (-0.3, -0.05), (-0.1, 0.2), "fails"),
        (0.9, [0.1, 0.2], (-0.3, 0.5), (-0.2, -0.05), "fails"),
        (0.9, [0.1, 0.2], (-0.3, 0.5), (-0.2, -0.001), "undecided"),  # one of two ways to fail, and only just
        (float("nan"), [0.1], (float("nan"),) * 2, (float("nan"),) * 2, "undecided"),
    ],
)
def test_the_verdict_on_alignment(p, moved, grown, excess, said):
    pair = tuple(Estimate((low + high) / 2, low, high) for low, high in (grown, excess))
    assert alignment_outcome(p, moved, surely_falls([pair])[0]) == said


def test_several_trainings_have_several_chances_to_fall():
    just, clear = (Estimate(-1.0, -1.0 - half, -1.0 + half) for half in (0.8, 0.2))
    up, none = Estimate(1.0, 0.9, 1.1), Estimate(0.0, -1.0, 1.0)
    assert surely_falls([(just, up)]) == [True]
    assert surely_falls([(just, up), (none, up), (none, up)]) == [False, False, False]
    assert surely_falls([(clear, up), (none, up), (none, up)]) == [True, False, False]
