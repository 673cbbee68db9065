"""The share of the three dimensions that carry most of the cosine."""

from __future__ import annotations

from isoscope.core.number import THIS_N, Number
from isoscope.statistics.cloud import Cloud
from isoscope.statistics.metric import metric


@metric(reads=("sums",), wants=("groups",), range=(0.0, float("inf")), interval_about=THIS_N, title="Share of the top three dimensions")
def top3_dimension_share(cloud: Cloud) -> Number:
    """How much of the mean cosine three "rogue" dimensions carry together; the note says which.

    As `top_dimension_share`, for the three largest. Range 0 to 1, and above 1 where other dimensions are negative. Null 3/d.

    Timkey and van Schijndel (2021).
    """
    return cloud.dimension_share(3)
