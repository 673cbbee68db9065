"""The effective rank."""

from __future__ import annotations

import numpy as np

from isoscope.core.number import THIS_N, Number
from isoscope.statistics.cloud import Cloud
from isoscope.statistics.metric import metric
from isoscope.statistics.spectrum import entropy


@metric(reads=("second",), wants=("sample",), range=(1.0, np.inf), interval_about=THIS_N, title="Effective rank")
def effective_rank(cloud: Cloud) -> Number:
    """How many directions the cloud uses, by the entropy of its singular values.

    ``exp(−Σ p ln p)``, p = σ/Σσ, centred.

    Range 1 to d. Null: its mean over isotropic Gaussian clouds of this n and d.

    Roy and Vetterli (2007).
    """
    return cloud.spectral(lambda values: np.asarray(np.exp(entropy(np.sqrt(values)))), bounds=(1.0, cloud.d))
