"""The share of the strongest direction, of variances and of singular values, and the share that heavy norms alone would give."""

from __future__ import annotations

from functools import partial

import numpy as np

from isoscope.core.number import THIS_N, Number
from isoscope.estimation.cloud import Cloud
from isoscope.estimation.declaration import Question
from isoscope.estimation.eigenvalues import top_part, top_part_linear
from isoscope.estimation.metric import metric

_share = partial(metric, range=(0.0, 1.0), question=Question.TOP_DIRECTION)


@_share(reads=("second",), wants=("sample",), interval_about=THIS_N, title="Top share (squared)")
def top_share(cloud: Cloud) -> Number:
    """The part of the variance that lies along the single strongest direction; blind to drift, since the mean is removed first.

    ``λ₁/Σλ`` over the eigenvalues of the centred covariance. A few points of enormous norm are enough to make it 1: compare
    `top_share_norm_null`.

    Range 1/d to 1. Null (1+√(d/n))²/d, the Marchenko–Pastur edge.

    Razzhigaev et al. (2024).

    >>> round(top_share([[10.0, 0, 0], [-10, 0, 0], [0, 2, 0], [0, -2, 0], [0, 0, 1], [0, 0, -1]]), 3)
    0.952
    """
    share = cloud.spectral(top_part, bounds=(0.0, 1.0))
    edge = (1 + (cloud.d / cloud.n) ** 0.5) ** 2 / cloud.d
    return Number(share, n=share.n, d=share.d, low=share.low, high=share.high, null=edge, null_sd=share.null_sd, note=share.note)


@_share(reads=("second",), wants=("sample",), interval_about=THIS_N, title="Top share (linear)")
def top_share_linear(cloud: Cloud) -> Number:
    """The strongest singular value's part of the sum of singular values of the centred cloud.

    ``σ₁/Σσ`` with σ = √λ. Some summaries of paper 2 give this form; `top_share` is the authors' own.

    Range 1/d to 1. Null: its mean over isotropic Gaussian clouds of this n and d.

    >>> round(top_share_linear([[10.0, 0, 0], [-10, 0, 0], [0, 2, 0], [0, -2, 0], [0, 0, 1], [0, 0, -1]]), 3)
    0.769
    """
    return cloud.spectral(top_part_linear, bounds=(0.0, 1.0))


@_share(reads=("second", "sample"), title="Top share by norms alone")
def top_share_norm_null(cloud: Cloud) -> Number:
    """The `top_share` that points of the observed norms would have in uniform directions: a second null next to Marchenko–Pastur.

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

    smallest = minimize_scalar(edge, bounds=(1e-9, 1 - 1e-9), method="bounded", options={"xatol": 1e-10})
    return Number(min(float(smallest.fun) / (weight * float(r2.sum())), 1.0), n=m, d=d)
