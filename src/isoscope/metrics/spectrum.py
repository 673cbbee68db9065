"""The spectrum as a curve."""

from __future__ import annotations

import numpy as np

from isoscope.statistics.cloud import Cloud
from isoscope.statistics.metric import Curve, series

POINTS = 120


@series(reads=("second",), title="Spectrum")
def spectrum(cloud: Cloud) -> Curve:
    """The eigenvalues of the centred covariance against their rank, at ranks spaced evenly on a logarithmic scale."""
    values = cloud.spectrum().values * cloud.unit**2
    rank = np.unique(np.geomspace(1, len(values), POINTS).round().astype(int)) if len(values) else np.zeros(0, dtype=int)
    return rank.astype(float), values[rank - 1], np.ones(len(rank))
