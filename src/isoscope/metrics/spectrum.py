"""The spectrum: as a curve, and the exponent of its power law."""

from __future__ import annotations

import numpy as np

from isoscope.core.number import THIS_N, Number
from isoscope.core.numerics import Floats
from isoscope.estimation.cloud import Cloud
from isoscope.estimation.declaration import Question
from isoscope.estimation.metric import Curve, metric, series

POINTS = 120
FIRST, LAST = 4, 100
"""The ranks that the power law is fitted to."""


@series(reads=("second",), title="Spectrum")
def spectrum(cloud: Cloud) -> Curve:
    """The eigenvalues of the centred covariance against their rank, at ranks spaced evenly on a logarithmic scale."""
    values = cloud.spectrum().values * cloud.unit**2
    rank = np.unique(np.geomspace(1, len(values), POINTS).round().astype(int)) if len(values) else np.zeros(0, dtype=int)
    return rank.astype(float), values[rank - 1], np.ones(len(rank))


@metric(
    reads=("second",),
    wants=("sample",),
    range=(0.0, np.inf),
    interval_about=THIS_N,
    title="Spectral decay",
    question=Question.DIMENSIONS_IN_USE,
)
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
    slope = cloud.spectral(lambda values: _fit(values)[0], bounds=(0.0, np.inf))
    note = f"ranks {FIRST}–{min(LAST, size)}, R² {float(_fit(values)[1]):.3f}"
    return Number(slope, n=slope.n, d=slope.d, low=slope.low, high=slope.high, null=slope.null, null_sd=slope.null_sd, note=note)


def _fit(values: Floats) -> tuple[Floats, Floats]:
    """Slope and R² of ln λ on −ln rank over ranks 4–100, weights 1/rank."""
    last = min(LAST, values.shape[-1])
    rank = np.arange(FIRST, last + 1, dtype=np.float64)
    x, y = -np.log(rank), np.log(np.maximum(values[..., FIRST - 1 : last], np.finfo(float).tiny))
    weight = 1 / rank / (1 / rank).sum()
    dx = x - weight @ x
    dy = y - (y @ weight)[..., None]
    slope = (dy * dx) @ weight / (weight @ dx**2)
    left = ((dy - slope[..., None] * dx) ** 2) @ weight
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(slope), np.asarray(1 - left / ((dy**2) @ weight))
