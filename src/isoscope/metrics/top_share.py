"""The share of the strongest direction: of variances and of singular values, by norms alone, and its profile over the blocks of a stack."""

from __future__ import annotations

from functools import partial

import numpy as np

from isoscope.core.number import THIS_N, Number
from isoscope.core.numerics import Floats
from isoscope.estimation.cloud import Cloud
from isoscope.estimation.eigenvalues import top_part, top_part_linear
from isoscope.estimation.metric import Question, metric
from isoscope.estimation.profile import middle_minus_ends, pairwise_differences, profile

_share = partial(metric, range=(0.0, 1.0), question=Question.TOP_DIRECTION)
_bell = partial(profile, extreme="smallest", range=(-1.0, 1.0))
_flatness = partial(profile, extreme="largest", range=(0.0, 1.0))


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

    n, d, m = cloud.n, cloud.d, len(cloud.documents.points)
    longest = cloud.documents.squared_lengths().max()
    r2 = cloud.documents.squared_lengths(cloud.moments.mean)
    if not r2.max() > 1e-14 * longest:  # the sample's own rounding, to float32, is no spread
        return Number(np.nan, n=m, d=d, note="all points are equal")
    r2 = r2 / r2.max()  # the search below is then between 0 and 1, whatever the scale of the points
    weight = n / m

    def edge(theta: float) -> float:
        return 1 / theta + weight / d * float((r2 / (1 - r2 * theta)).sum())

    smallest = minimize_scalar(edge, bounds=(1e-9, 1 - 1e-9), method="bounded", options={"xatol": 1e-10})
    return Number(min(float(smallest.fun) / (weight * float(r2.sum())), 1.0), n=m, d=d)


@_bell(layer_value=top_part, title="Bell of the top share")
def bell(shares: Floats) -> Floats:
    """How far the top share of the middle blocks lies above that of the first and the last blocks; one number per stack.

    The mean of `top_share` over the blocks at relative depth ⅓ to ⅔ minus the larger of its means over the first and the last sixth;
    block l of L stands at (l − ½)/L; layer 0 and the state after a final norm are left out. The profile is bell-shaped if the lower
    bound is above 0.05. Interval: Student's, its standard error from a bootstrap over documents with the same draws in every layer; the
    upper bound allows for the choice of the larger end.

    Range −1 to 1. No null: a flat profile has 0, and a noisy one has less, because the larger of two ends is subtracted.

    Razzhigaev et al. (2024) for the shape; the test is isoscope's.
    """
    return middle_minus_ends(shares)


@_bell(layer_value=top_part_linear, title="Bell of the top share (linear)")
def bell_linear(shares: Floats) -> Floats:
    """How far the linear top share of the middle blocks lies above that of the first and the last blocks; one number per stack.

    As `bell`, of `top_share_linear`.

    Range −1 to 1. No null: a flat profile has 0, and a noisy one less.
    """
    return middle_minus_ends(shares)


@_flatness(layer_value=top_part, title="Range of the top share over the blocks")
def share_range(shares: Floats) -> Floats:
    """The largest top share of any block minus the smallest; one number per stack.

    ``max − min`` of `top_share` over the blocks, without layer 0 and the state after a final norm. The profile is flat if the upper
    bound is below 0.1. Chance makes the largest larger and the smallest smaller, so that the number lies too high rather than too low.
    Interval: Student's, its standard error from a bootstrap over documents with the same draws in every layer. The lower bound allows
    for the number of pairs of blocks; the upper bound is the highest of any pair.

    Range 0 to 1. No null: equal layers have 0.
    """
    return pairwise_differences(shares)


@_flatness(layer_value=top_part_linear, title="Range of the linear top share over the blocks")
def share_range_linear(shares: Floats) -> Floats:
    """The largest linear top share of any block minus the smallest; one number per stack.

    As `share_range`, of `top_share_linear`.

    Range 0 to 1. No null: equal layers have 0.
    """
    return pairwise_differences(shares)
