"""The stable rank."""

from __future__ import annotations

import numpy as np

from isoscope.core.number import THIS_N, Number
from isoscope.statistics.cloud import Cloud
from isoscope.statistics.metric import metric


@metric(reads=("second",), wants=("sample",), range=(1.0, np.inf), interval_about=THIS_N, title="Stable rank")
def stable_rank(cloud: Cloud) -> Number:
    """How many times the strongest direction's energy the whole cloud holds, the mean included.

    ``‖X‖²_F/‖X‖²₂``, uncentred: drift lowers it. (Centred it would be 1/top_share.)

    Range 1 to d. Null: its mean over isotropic Gaussian clouds of this n and d.
    """
    return cloud.spectral(lambda values: np.asarray(values.sum(-1) / values[..., 0]), centred=False, bounds=(1.0, cloud.d))
