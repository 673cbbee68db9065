"""The "rogue" dimensions that carry the mean cosine: the largest, the three largest, and the ten largest as a curve."""

from __future__ import annotations

from functools import partial

import numpy as np

from isoscope.core.number import THIS_N, Number
from isoscope.estimation.cloud import Cloud
from isoscope.estimation.declaration import Question
from isoscope.estimation.metric import Curve, metric, series

LARGEST = 10
_share = partial(metric, reads=("sums",), wants=("groups",), range=(0.0, np.inf), interval_about=THIS_N, question=Question.COORDINATES)


@_share(title="Share of the top dimension")
def top_dimension_share(cloud: Cloud) -> Number:
    """How much of the mean cosine a single "rogue" dimension carries; the note says which.

    ``CCᵢ = (sᵢ² − Σuᵢ²)/(n(n−1))``, the largest over ΣCC, s = Σu. Undefined unless the lower bound of the mean cosine is above 0.

    Range 0 to 1, and above 1 if other dimensions are negative. Null 1/d: all dimensions alike.

    Timkey and van Schijndel (2021).
    """
    return cloud.dimension_share(1)


@_share(title="Share of the top three dimensions")
def top3_dimension_share(cloud: Cloud) -> Number:
    """How much of the mean cosine three "rogue" dimensions carry together; the note says which.

    As `top_dimension_share`, for the three largest. Range 0 to 1, and above 1 if other dimensions are negative. Null 3/d.

    Timkey and van Schijndel (2021).
    """
    return cloud.dimension_share(3)


@series(reads=("sums",), title="Dimensions that carry the cosine")
def dimension_share(cloud: Cloud) -> Curve:
    """The ten dimensions that carry most of the mean cosine, and the share of each; nothing if the mean cosine is not above 0."""
    cosines = cloud.dimension_cosines
    mean_cosine = float(cosines.sum())
    order = np.argsort(cosines)[::-1][: LARGEST if mean_cosine > 0 else 0]
    return order.astype(float), cosines[order] / (mean_cosine if mean_cosine > 0 else 1.0), np.ones(len(order))
