"""Intrinsic dimension at one scale, further out than the nearest neighbours."""

from __future__ import annotations

import numpy as np

from isoscope.core.number import THIS_N, Number
from isoscope.statistics.cloud import Cloud
from isoscope.statistics.dimension import GRIDE, dimension
from isoscope.statistics.metric import metric


@metric(
    reads=("neighbours",),
    range=(0.0, np.inf),
    interval_about=THIS_N,
    title="Intrinsic dimension (GRIDE, 8 to 16)",
    at_least=3,
    on_request=True,
)
def gride(cloud: Cloud) -> Number:
    """The intrinsic dimension at the scale of the 8th to the 16th neighbour.

    The d that maximises the likelihood of μ = r₁₆/r₈, Π (μ^d − 1)⁷ · d/μ^(15d+1), over the sample's distinct points. Noise and
    near-duplicates that are smaller than r₈ do not count in it; density that changes between r₈ and r₁₆ does. All scales: `gride_scales`.

    Range 0 to ∞; null: its mean over isotropic Gaussian clouds of this n and d.

    Denti, Doimo, Laio and Mira (2022).
    """
    return dimension(cloud, GRIDE)
