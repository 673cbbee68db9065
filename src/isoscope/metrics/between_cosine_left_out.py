"""The mean cosine between items without each group of items in turn."""

from __future__ import annotations

import numpy as np

from isoscope.statistics.cloud import Cloud
from isoscope.statistics.groups import between_cosine_of
from isoscope.statistics.metric import Curve, series


@series(reads=("groups",), title="Mean cosine between items, a group left out")
def between_cosine_left_out(cloud: Cloud) -> Curve:
    """`between_cosine` with one group of items left out: the group's number, the cosine without it, and how many points it holds.

    The interval of `between_cosine` comes from the spread of these. They also show which layers the same documents move together, so a
    claim about the highest or the lowest of all layers can allow for how many there are.
    """
    assert cloud.groups is not None
    filled, left_out = cloud.groups.left_out(between_cosine_of)
    known = np.isfinite(left_out)
    return filled[known].astype(np.float64), left_out[known], cloud.groups.counts[0, 0][filled[known]]
