"""Intrinsic dimension by maximum likelihood over a neighbourhood."""

from __future__ import annotations

import numpy as np

from isoscope.core.number import THIS_N, Number
from isoscope.statistics.cloud import Cloud
from isoscope.statistics.dimension import LEVINA_BICKEL, dimension
from isoscope.statistics.metric import metric


@metric(
    reads=("neighbours",),
    range=(0.0, np.inf),
    interval_about=THIS_N,
    title="Intrinsic dimension (Levina–Bickel, 20)",
    at_least=3,
    on_request=True,
)
def levina_bickel(cloud: Cloud) -> Number:
    """The intrinsic dimension by maximum likelihood over the 20 nearest neighbours.

    ``n(k − 1)/ΣΣ ln(r_k/r_j)``, k = 20, over the sample's distinct points: the points' estimates joined by the harmonic mean (MacKay and
    Ghahramani), not by the plain mean of the first paper. Surer than `two_nn`, and more biased, since its neighbourhoods are larger.

    Range 0 to ∞; null: its mean over isotropic Gaussian clouds of this n and d.

    Levina and Bickel (2004); MacKay and Ghahramani (2005).
    """
    return dimension(cloud, LEVINA_BICKEL)
