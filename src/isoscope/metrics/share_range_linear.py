"""Whether the linear top share over the blocks is flat."""

from __future__ import annotations

from isoscope.core.arrays import Floats
from isoscope.statistics.profile import profile, spread, steps
from isoscope.statistics.spectrum import top_part_linear


@profile(of=top_part_linear, range=(0.0, 1.0), contrasts=steps, title="Range of the linear top share over the blocks")
def share_range_linear(shares: Floats) -> Floats:
    """The largest linear top share of any block minus the smallest; one number a stack.

    As `share_range`, of `top_share_linear`.

    Range 0 to 1. No null: equal layers have 0.
    """
    return spread(shares)
