"""Whether the top share over the blocks is a bell."""

from __future__ import annotations

from isoscope.core.arrays import Floats
from isoscope.statistics.profile import bulge, humps, profile
from isoscope.statistics.spectrum import top_part


@profile(of=top_part, range=(-1.0, 1.0), contrasts=humps, least=True, title="Bell of the top share")
def bell(shares: Floats) -> Floats:
    """How far the top share of the middle blocks lies above that of the first and the last ones; one number a stack.

    The mean of `top_share` over the blocks at relative depth ⅓ to ⅔ minus the larger of its means over the first and the last sixth;
    block l of L stands at (l − ½)/L; layer 0 and the state after a final norm are left out. The profile is bell-shaped where the lower
    bound is above 0.05. Interval: Student's, its standard error from a bootstrap over documents with the same draws in every layer; the
    upper bound allows for the choice of the larger end.

    Range −1 to 1. No null: a flat profile has 0, and a noisy one has less, because the larger of two ends is taken off.

    Razzhigaev et al. (2024) for the shape; the test is isoscope's.
    """
    return bulge(shares)
