"""How many directions a cloud uses, by the entropy or the top of its spectrum."""

from __future__ import annotations

from functools import partial

import numpy as np

from isoscope.core.number import THIS_N, Number
from isoscope.core.numerics import Floats
from isoscope.estimation.cloud import Cloud
from isoscope.estimation.declaration import Question
from isoscope.estimation.eigenvalues import entropy
from isoscope.estimation.metric import metric

_rank = partial(metric, reads=("second",), wants=("sample",), interval_about=THIS_N, question=Question.DIMENSIONS_IN_USE)


@_rank(range=(1.0, np.inf), title="Effective rank")
def effective_rank(cloud: Cloud) -> Number:
    """How many directions the cloud uses, by the entropy of its singular values.

    ``exp(−Σ p ln p)``, p = σ/Σσ, centred.

    Range 1 to d. Null: its mean over isotropic Gaussian clouds of this n and d.

    Roy and Vetterli (2007).

    >>> round(effective_rank([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]), 3)
    2.0
    """
    return cloud.spectral(lambda values: np.asarray(np.exp(entropy(np.sqrt(values)))), bounds=(1.0, cloud.d))


@_rank(range=(0.0, np.inf), title="Matrix entropy")
def matrix_entropy(cloud: Cloud) -> Number:
    """How evenly the variance is spread over directions, in nats.

    ``−Σ p ln p``, p = λ/Σλ, centred.

    Range 0 to ln d. Null: its mean over isotropic Gaussian clouds of this n and d.

    >>> round(matrix_entropy([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]), 3)
    0.693
    """
    return cloud.spectral(lambda values: np.asarray(entropy(values)), bounds=(0.0, np.log(cloud.d)))


@_rank(range=(1.0, np.inf), title="RankMe")
def rankme(cloud: Cloud) -> Number:
    """How many directions the cloud uses, by the entropy of its singular values, the mean included.

    ``exp(−Σ p ln p)``, p = σ/Σσ + 1e-7 over the min(n, d) singular values of the uncentred matrix: drift lowers it.

    Range 1 to min(n, d). Null: its mean over isotropic Gaussian clouds of this n and d.

    Garrido et al. (2023).
    """

    def exponential_entropy(values: Floats) -> Floats:
        sigma = np.sqrt(values)
        p = sigma / sigma.sum(-1, keepdims=True) + 1e-7
        return np.asarray(np.exp(-(p * np.log(p)).sum(-1)))

    return cloud.spectral(exponential_entropy, centred=False, bounds=(1.0, cloud.d))


@_rank(range=(1.0, np.inf), title="Stable rank")
def stable_rank(cloud: Cloud) -> Number:
    """How many times the strongest direction's energy the whole cloud holds, the mean included.

    ``‖X‖²_F/‖X‖²₂``, uncentred: drift lowers it. (Centred it would be 1/top_share.)

    Range 1 to d. Null: its mean over isotropic Gaussian clouds of this n and d.

    >>> round(stable_rank([[2.0, 1.0], [2.0, -1.0], [2.0, 0.5], [2.0, -0.5]]), 3)
    1.156
    """
    return cloud.spectral(lambda values: np.asarray(values.sum(-1) / values[..., 0]), centred=False, bounds=(1.0, cloud.d))
