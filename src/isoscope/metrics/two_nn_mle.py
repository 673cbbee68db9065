"""Intrinsic dimension by two neighbours and maximum likelihood."""

from __future__ import annotations

import numpy as np

from isoscope.core.number import THIS_N, Number
from isoscope.statistics.cloud import Cloud
from isoscope.statistics.dimension import MLE, dimension
from isoscope.statistics.metric import metric


@metric(
    reads=("neighbours",),
    range=(0.0, np.inf),
    interval_about=THIS_N,
    title="Intrinsic dimension (TwoNN, likelihood)",
    at_least=3,
    on_request=True,
)
def two_nn_mle(cloud: Cloud) -> Number:
    """The intrinsic dimension by two neighbours, fitted by maximum likelihood to all distinct points of the sample.

    ``(n − 1)/Σ ln μ``, μ = r₂/r₁: the preset `mle`. The surest of the presets where the model holds; a few points with a neighbour that is
    very near move it more than they move `two_nn`.

    Range 0 to ∞; null: its mean over isotropic Gaussian clouds of this n and d.

    Facco et al. (2017); Denti et al. (2022).
    """
    return dimension(cloud, MLE)
