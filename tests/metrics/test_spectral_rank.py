"""Ranks of a spectrum, on clouds small enough to work out the bootstrap by hand."""

import numpy as np
import pytest

from isoscope.metrics import stable_rank


def test_stable_rank_of_a_draw_without_the_first_direction():
    """Four points on two axes: a draw of the two short ones alone has one direction, whose energy is all that there is.

    A draw with k of four points on the long axis has the rank 1 + (4 − k)/4k, 1 again for k = 0. k is binomial, so that 1 and 1.75 (k = 1)
    are the quantiles of 2.5 and 97.5 %, moved by 0 onto the exact value 1.25. Warnings are errors.
    """
    rank = stable_rank(np.array([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]]))
    assert float(rank) == pytest.approx(1.25)
    assert (rank.low, rank.high) == (pytest.approx(1.0), pytest.approx(1.75))
