"""The dimensions that carry the cosine, as a curve."""

from __future__ import annotations

import numpy as np

from isoscope.statistics.cloud import Cloud
from isoscope.statistics.metric import Curve, series

LARGEST = 10


@series(reads=("sums",), title="Dimensions that carry the cosine")
def dimension_share(cloud: Cloud) -> Curve:
    """The ten dimensions that carry most of the mean cosine, and the share of each; nothing where the mean cosine is not above 0."""
    cosines = cloud.dimension_cosines
    whole = float(cosines.sum())
    order = np.argsort(cosines)[::-1][: LARGEST if whole > 0 else 0]
    return order.astype(float), cosines[order] / (whole if whole > 0 else 1.0), np.ones(len(order))
