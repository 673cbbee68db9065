"""What heavy norms alone would make of the top share."""

from __future__ import annotations

import numpy as np

from isoscope.core.number import Number
from isoscope.statistics.cloud import Cloud
from isoscope.statistics.metric import metric


@metric(reads=("second", "sample"), range=(0.0, 1.0), title="Top share by norms alone")
def top_share_norm_null(cloud: Cloud) -> Number:
    """The `top_share` that points of the observed norms would have in uniform directions: a second null beside Marchenko–Pastur.

    The upper edge of the spectrum of Σr²uuᵀ with u uniform: the minimum over μ in (−1/max r², 0) of
    ``−1/μ + (1/d)Σ r²/(1 + r²μ)``, over Σr² (Marchenko and Pastur 1967). Norms are those of the sample around its mean, each
    standing for n/m points. With equal norms it is (1+√(d/n))²/d.

    Range 0 to 1. It is a null itself and has none.
    """
    from scipy.optimize import minimize_scalar

    points = cloud.drawn.points.astype(np.float64)
    n, d, m = cloud.n, cloud.d, len(points)
    longest = np.einsum("ij,ij->i", points, points).max()
    points -= cloud.moments.mean
    r2 = np.einsum("ij,ij->i", points, points)
    if not r2.max() > 1e-14 * longest:  # the sample's own rounding, to float32, is no spread
        return Number(np.nan, n=m, d=d, note="all points are equal")
    r2 = r2 / r2.max()
    weight = n / m

    def edge(theta: float) -> float:
        return 1 / theta + weight / d * float((r2 / (1 - r2 * theta)).sum())

    best = minimize_scalar(edge, bounds=(1e-9, 1 - 1e-9), method="bounded", options={"xatol": 1e-10})
    return Number(min(float(best.fun) / (weight * float(r2.sum())), 1.0), n=m, d=d)
