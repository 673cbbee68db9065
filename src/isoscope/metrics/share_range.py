"""Whether the top share over the blocks is flat."""

from __future__ import annotations

from isoscope.core.arrays import Floats
from isoscope.statistics.profile import profile, spread, steps
from isoscope.statistics.spectrum import top_part


@profile(of=top_part, range=(0.0, 1.0), contrasts=steps, title="Range of the top share over the blocks")
def share_range(shares: Floats) -> Floats:
    """The largest top share of any block minus the smallest; one number a stack.

    ``max − min`` of `top_share` over the blocks, without layer 0 and the state after a final norm. The profile is flat where the upper
    bound is below 0.1. Chance makes the largest larger and the smallest smaller, so that the number lies too high rather than too low.
    Interval: Student's, its standard error from a bootstrap over documents with the same draws in every layer. The lower bound allows
    for the number of pairs of blocks; the upper bound is the highest of any pair.

    Range 0 to 1. No null: equal layers have 0.
    """
    return spread(shares)
