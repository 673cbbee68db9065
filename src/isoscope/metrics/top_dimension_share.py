"""The share of the one dimension that carries most of the cosine."""

from __future__ import annotations

from isoscope.core.number import THIS_N, Number
from isoscope.statistics.cloud import Cloud
from isoscope.statistics.metric import metric


@metric(reads=("sums",), wants=("groups",), range=(0.0, float("inf")), interval_about=THIS_N, title="Share of the top dimension")
def top_dimension_share(cloud: Cloud) -> Number:
    """How much of the mean cosine a single "rogue" dimension carries; the note says which.

    ``CCᵢ = (sᵢ² − Σuᵢ²)/(n(n−1))``, the largest over ΣCC, s = Σu. Undefined where the lower bound of the mean cosine is not above 0.

    Range 0 to 1, and above 1 where other dimensions are negative. Null 1/d: all dimensions alike.

    Timkey and van Schijndel (2021).
    """
    return cloud.dimension_share(1)
