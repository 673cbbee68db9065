"""Whether the top share over the blocks is flat."""

from __future__ import annotations

from isoscope.statistics.kernel import Floats
from isoscope.statistics.profile import profile, spread
from isoscope.statistics.spectrum import top_part


@profile(of=top_part, range=(0.0, 1.0), title="Range of the top share over the blocks")
def share_range(shares: Floats) -> Floats:
    """The largest top share of any block minus the smallest; one number a stack.

    ``max − min`` of `top_share` over the blocks, without layer 0 and the state after a final norm. The profile is flat where the upper
    bound is below 0.1. Chance makes the largest larger and the smallest smaller, so that the number lies too high rather than too low.
    Interval: a bootstrap over documents with the same draws in every layer, reflected, which takes most of that off.

    Range 0 to 1. No null: equal layers have 0.
    """
    return spread(shares)
