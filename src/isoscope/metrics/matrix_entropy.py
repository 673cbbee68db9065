"""The entropy of the spectrum."""

from __future__ import annotations

import numpy as np

from isoscope.core.number import THIS_N, Number
from isoscope.statistics.cloud import Cloud
from isoscope.statistics.metric import metric
from isoscope.statistics.spectrum import entropy


@metric(reads=("second",), wants=("sample",), range=(0.0, np.inf), interval_about=THIS_N, title="Matrix entropy")
def matrix_entropy(cloud: Cloud) -> Number:
    """How evenly the variance is spread over directions, in nats.

    ``−Σ p ln p``, p = λ/Σλ, centred.

    Range 0 to ln d. Null: its mean over isotropic Gaussian clouds of this n and d.
    """
    return cloud.spectral(lambda values: np.asarray(entropy(values)), bounds=(0.0, np.log(cloud.d)))
