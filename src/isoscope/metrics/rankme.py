"""RankMe."""

from __future__ import annotations

import numpy as np

from isoscope.core.arrays import Floats
from isoscope.core.number import THIS_N, Number
from isoscope.statistics.cloud import Cloud
from isoscope.statistics.metric import metric


def _rankme(values: Floats) -> Floats:
    sigma = np.sqrt(values)
    p = sigma / sigma.sum(-1, keepdims=True) + 1e-7
    return np.asarray(np.exp(-(p * np.log(p)).sum(-1)))


@metric(reads=("second",), wants=("sample",), range=(1.0, np.inf), interval_about=THIS_N, title="RankMe")
def rankme(cloud: Cloud) -> Number:
    """How many directions the cloud uses, by the entropy of its singular values, the mean included.

    ``exp(−Σ p ln p)``, p = σ/Σσ + 1e-7 over the min(n, d) singular values of the uncentred matrix: drift lowers it.

    Range 1 to min(n, d). Null: its mean over isotropic Gaussian clouds of this n and d.

    Garrido et al. (2023).
    """
    return cloud.spectral(_rankme, centred=False, bounds=(1.0, cloud.d))
