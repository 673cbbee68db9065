"""How many directions a cloud uses, by the entropy, the top or the decay of its spectrum; and the spectrum as a curve."""

from __future__ import annotations

from functools import partial

import numpy as np

from isoscope.core.number import THIS_N, Number
from isoscope.core.numerics import Floats
from isoscope.estimation.cloud import Cloud
from isoscope.estimation.eigenvalues import entropy
from isoscope.estimation.metric import Curve, Question, metric, series

_rank = partial(metric, reads=("second",), wants=("sample",), interval_about=THIS_N, question=Question.DIMENSIONS_IN_USE)
POINTS = 120
FIRST, LAST = 4, 100
"""The ranks that the power law is fitted to."""


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
    """The energy of the whole cloud in units of its strongest direction's, the mean included.

    ``‖X‖²_F/‖X‖²₂``, uncentred: drift lowers it. (Centred it would be 1/top_share.)

    Range 1 to d. Null: its mean over isotropic Gaussian clouds of this n and d.

    >>> round(stable_rank([[2.0, 1.0], [2.0, -1.0], [2.0, 0.5], [2.0, -0.5]]), 3)
    1.156
    """

    def rank(values: Floats) -> Floats:
        # A bootstrap draw may hold no point along the first direction. Its strongest direction is then another one.
        strongest = np.where(values[..., 0] > 0, values[..., 0], values.max(-1))
        return np.asarray(values.sum(-1) / strongest)

    return cloud.spectral(rank, centred=False, bounds=(1.0, cloud.d))


@series(reads=("second",), title="Spectrum")
def spectrum(cloud: Cloud) -> Curve:
    """The eigenvalues of the centred covariance against their rank, at ranks spaced evenly on a logarithmic scale."""
    values = cloud.spectrum().values * cloud.unit**2
    rank = np.unique(np.geomspace(1, len(values), POINTS).round().astype(int)) if len(values) else np.zeros(0, dtype=int)
    return rank.astype(float), values[rank - 1], np.ones(len(rank))


@_rank(range=(0.0, np.inf), title="Spectral decay")
def spectral_decay(cloud: Cloud) -> Number:
    """How fast the variances fall with their rank: the exponent α in λ ∝ rank^−α.

    Weighted least squares (weights 1/rank) of ln λ on −ln rank, ranks 4–100; the range used and R² are in the note. Refused below
    d = 20 and with fewer than 20 eigenvalues.

    Range 0 to ∞. Null: its mean over isotropic Gaussian clouds of this n and d.
    """
    size = min(cloud.n - 1, cloud.d)
    if size < 20:
        return Number(np.nan, n=cloud.n, d=cloud.d, note="refused: a power law needs at least 20 eigenvalues")
    values = cloud.spectrum().values
    if not values[min(LAST, size) - 1] > 1e-12 * values[0]:
        return Number(np.nan, n=cloud.n, d=cloud.d, note="refused: eigenvalues within ranks 4–100 vanish")
    slope = cloud.spectral(lambda values: _fit_power_law(values)[0], bounds=(0.0, np.inf))
    note = f"ranks {FIRST}–{min(LAST, size)}, R² {float(_fit_power_law(values)[1]):.3f}"
    return Number(slope, n=slope.n, d=slope.d, low=slope.low, high=slope.high, null=slope.null, null_sd=slope.null_sd, note=note)


def _fit_power_law(values: Floats) -> tuple[Floats, Floats]:
    """Return the slope and R² of ln λ on −ln rank over ranks 4–100, weights 1/rank."""
    last = min(LAST, values.shape[-1])
    rank = np.arange(FIRST, last + 1, dtype=np.float64)
    x, y = -np.log(rank), np.log(np.maximum(values[..., FIRST - 1 : last], np.finfo(float).tiny))
    weight = 1 / rank / (1 / rank).sum()
    # Closed form with one set of weights, so that one call fits the spectrum, all bootstrap draws and all null clouds.
    dx = x - weight @ x
    dy = y - (y @ weight)[..., None]
    slope = (dy * dx) @ weight / (weight @ dx**2)
    left = ((dy - slope[..., None] * dx) ** 2) @ weight
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(slope), np.asarray(1 - left / ((dy**2) @ weight))
