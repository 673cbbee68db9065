"""Intrinsic dimension by two neighbours, as published."""

from __future__ import annotations

import numpy as np

from isoscope.core.number import THIS_N, Number
from isoscope.statistics.cloud import Cloud
from isoscope.statistics.dimension import FACCO, dimension
from isoscope.statistics.metric import metric


@metric(reads=("neighbours",), range=(0.0, np.inf), interval_about=THIS_N, title="Intrinsic dimension (TwoNN)", at_least=3)
def two_nn(cloud: Cloud) -> Number:
    """The number of dimensions in which a point's nearest neighbours lie around it.

    The slope through the origin of −ln(1 − F(μ)) on ln μ over the sample's distinct points, μ = r₂/r₁ the ratio of the distances to the
    second and the first neighbour, without the largest tenth of μ: the preset `facco`. In high dimension it is biased: see its null.

    Range 0 to ∞; null: its mean over isotropic Gaussian clouds of this n and d, far below d where d is high.

    Facco, d'Errico, Rodriguez and Laio (2017).
    """
    return dimension(cloud, FACCO)
