"""The share of the strongest direction."""

from __future__ import annotations

from isoscope.core.number import THIS_N, Number
from isoscope.statistics.cloud import Cloud
from isoscope.statistics.metric import metric
from isoscope.statistics.spectrum import top_part


@metric(reads=("second",), wants=("sample",), range=(0.0, 1.0), interval_about=THIS_N, title="Top share (squared)")
def top_share(cloud: Cloud) -> Number:
    """The part of the variance that lies along the single strongest direction; blind to drift, since the mean is removed first.

    ``λ₁/Σλ`` over the eigenvalues of the centred covariance. A few points of enormous norm are enough to make it 1: compare
    `top_share_norm_null`.

    Range 1/d to 1. Null (1+√(d/n))²/d, the Marchenko–Pastur edge.

    Razzhigaev et al. (2024).

    >>> round(top_share([[10.0, 0, 0], [-10, 0, 0], [0, 2, 0], [0, -2, 0], [0, 0, 1], [0, 0, -1]]), 3)
    0.952
    """
    found = cloud.spectral(top_part, bounds=(0.0, 1.0))
    edge = (1 + (cloud.d / cloud.n) ** 0.5) ** 2 / cloud.d
    return Number(found, n=found.n, d=found.d, low=found.low, high=found.high, null=edge, null_sd=found.null_sd, note=found.note)
