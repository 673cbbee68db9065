"""Whether the linear top share over the blocks is a bell."""

from __future__ import annotations

from isoscope.core.arrays import Floats
from isoscope.statistics.profile import bulge, humps, profile
from isoscope.statistics.spectrum import top_part_linear


@profile(of=top_part_linear, range=(-1.0, 1.0), contrasts=humps, least=True, title="Bell of the top share (linear)")
def bell_linear(shares: Floats) -> Floats:
    """How far the linear top share of the middle blocks lies above that of the first and the last ones; one number a stack.

    As `bell`, of `top_share_linear`.

    Range −1 to 1. No null: a flat profile has 0, and a noisy one less.
    """
    return bulge(shares)
