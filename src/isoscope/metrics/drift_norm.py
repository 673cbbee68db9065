"""The length of the mean."""

from __future__ import annotations

import numpy as np

from isoscope.core.number import Number
from isoscope.statistics.cloud import Cloud
from isoscope.statistics.metric import metric


@metric(reads=("sums",), wants=("groups",), range=(0.0, np.inf), title="Drift: norm of the mean", at_least=1)
def drift_norm(cloud: Cloud) -> Number:
    """How far the centre of the cloud lies from the origin: ‖x̄‖.

    Range 0 to ∞. Null √(E‖x‖²/n): what the mean of n points of these norms in random directions has, with standard deviation
    1/√(2d) of it.

    Godey, de la Clergerie and Sagot (2024).

    >>> drift_norm([[3.0, 0.0], [1.0, 0.0]])
    2.0
    """
    m, n, d = cloud.moments, cloud.n, cloud.d
    low, high = cloud.grouped(lambda t: np.asarray(np.sqrt((t.total**2).sum(-1)) / t.n), bounds=(0.0, np.inf))
    null = (m.norm2 / n / n) ** 0.5
    return Number(float(np.linalg.norm(m.mean)), n=n, d=d, low=low, high=high, null=null, null_sd=null / (2 * d) ** 0.5)
