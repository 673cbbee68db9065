"""Intrinsic dimension by two neighbours, as "The Shape of Learning" computes it."""

from __future__ import annotations

import numpy as np

from isoscope.core.number import THIS_N, Number
from isoscope.statistics.cloud import Cloud
from isoscope.statistics.dimension import RAZZHIGAEV, dimension
from isoscope.statistics.metric import metric


@metric(
    reads=("neighbours",),
    range=(0.0, np.inf),
    interval_about=THIS_N,
    title="Intrinsic dimension (TwoNN, Razzhigaev)",
    at_least=3,
    on_request=True,
)
def two_nn_razzhigaev(cloud: Cloud) -> Number:
    """The intrinsic dimension by two neighbours as the authors of "The Shape of Learning" compute it, number for number.

    The slope through the origin of −ln(1 − F(μ)) on ln μ over the lowest fifth of μ = r₂/r₁: the preset `razzhigaev`. Exact duplicates stay
    among the points, as they do in the authors' code: points with r₁ < 1e-8 (in mean lengths of a centred point) or μ ≤ 1 + 1e-8 are not
    fitted and still counted in F, which raises the number where there are many. The fifth makes it twice as uncertain as `two_nn`.

    Range 0 to ∞; null: its mean over isotropic Gaussian clouds of this n and d.

    Razzhigaev et al. (2024).
    """
    return dimension(cloud, RAZZHIGAEV)
