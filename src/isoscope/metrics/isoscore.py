"""IsoScore."""

from __future__ import annotations

import numpy as np

from isoscope.core.number import THIS_N, Number
from isoscope.statistics.cloud import Cloud
from isoscope.statistics.metric import metric


@metric(reads=("second",), wants=("sample",), range=(0.0, 1.0), interval_about=THIS_N, title="IsoScore")
def isoscore(cloud: Cloud) -> Number:
    """How evenly the variance is spread over all d directions: 1 is isotropic, 0 is a line.

    ``(PR − 1)/(d − 1)`` with PR = (Σλ)²/Σλ², centred; exactly the score of Rudman et al. (2022).

    Range 0 to 1. Null: its mean over isotropic Gaussian clouds of this n and d; below 1 because n is finite.
    """
    if cloud.d < 2:
        return Number(np.nan, n=cloud.n, d=cloud.d, note="one dimension is always evenly spread")
    return cloud.spectral(lambda values: np.asarray((values.sum(-1) ** 2 / (values**2).sum(-1) - 1) / (cloud.d - 1)), bounds=(0.0, 1.0))
