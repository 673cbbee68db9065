"""The profile of the top share over the blocks of a stack: whether it is a bell, and whether it is flat."""

from __future__ import annotations

from functools import partial

from isoscope.core.numerics import Floats
from isoscope.estimation.eigenvalues import top_part, top_part_linear
from isoscope.estimation.profile import middle_minus_ends, pairwise_differences, profile

_bell = partial(profile, extreme="smallest", range=(-1.0, 1.0))
_flatness = partial(profile, extreme="largest", range=(0.0, 1.0))


@_bell(layer_value=top_part, title="Bell of the top share")
def bell(shares: Floats) -> Floats:
    """How far the top share of the middle blocks lies above that of the first and the last ones; one number per stack.

    The mean of `top_share` over the blocks at relative depth ⅓ to ⅔ minus the larger of its means over the first and the last sixth;
    block l of L stands at (l − ½)/L; layer 0 and the state after a final norm are left out. The profile is bell-shaped if the lower
    bound is above 0.05. Interval: Student's, its standard error from a bootstrap over documents with the same draws in every layer; the
    upper bound allows for the choice of the larger end.

    Range −1 to 1. No null: a flat profile has 0, and a noisy one has less, because the larger of two ends is subtracted.

    Razzhigaev et al. (2024) for the shape; the test is isoscope's.
    """
    return middle_minus_ends(shares)


@_bell(layer_value=top_part_linear, title="Bell of the top share (linear)")
def bell_linear(shares: Floats) -> Floats:
    """How far the linear top share of the middle blocks lies above that of the first and the last ones; one number per stack.

    As `bell`, of `top_share_linear`.

    Range −1 to 1. No null: a flat profile has 0, and a noisy one less.
    """
    return middle_minus_ends(shares)


@_flatness(layer_value=top_part, title="Range of the top share over the blocks")
def share_range(shares: Floats) -> Floats:
    """The largest top share of any block minus the smallest; one number per stack.

    ``max − min`` of `top_share` over the blocks, without layer 0 and the state after a final norm. The profile is flat if the upper
    bound is below 0.1. Chance makes the largest larger and the smallest smaller, so that the number lies too high rather than too low.
    Interval: Student's, its standard error from a bootstrap over documents with the same draws in every layer. The lower bound allows
    for the number of pairs of blocks; the upper bound is the highest of any pair.

    Range 0 to 1. No null: equal layers have 0.
    """
    return pairwise_differences(shares)


@_flatness(layer_value=top_part_linear, title="Range of the linear top share over the blocks")
def share_range_linear(shares: Floats) -> Floats:
    """The largest linear top share of any block minus the smallest; one number per stack.

    As `share_range`, of `top_share_linear`.

    Range 0 to 1. No null: equal layers have 0.
    """
    return pairwise_differences(shares)
