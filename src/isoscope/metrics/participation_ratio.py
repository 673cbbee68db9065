"""The participation ratio."""

from __future__ import annotations

import numpy as np

from isoscope.core.number import THIS_N, Number
from isoscope.statistics.cloud import Cloud
from isoscope.statistics.metric import metric


@metric(reads=("second",), wants=("sample",), range=(1.0, np.inf), interval_about=THIS_N, title="Participation ratio")
def participation_ratio(cloud: Cloud) -> Number:
    """How many directions share the variance, counting each by its square.

    ``(Σλ)²/Σλ²``, centred.

    Range 1 to d. Null: its mean over isotropic Gaussian clouds of this n and d, about d/(1+d/n).
    """
    return cloud.spectral(lambda values: np.asarray(values.sum(-1) ** 2 / (values**2).sum(-1)), bounds=(1.0, cloud.d))
