"""Intrinsic dimension from the distances to nearest neighbours: two of them (TwoNN), or more (GRIDE, Levina–Bickel)."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from isoscope.core.errors import IsoscopeError
from isoscope.core.number import THIS_N, Number
from isoscope.core.numerics import Floats
from isoscope.estimation.cloud import Cloud
from isoscope.estimation.intrinsic_dimension import (
    FACCO,
    FEWEST,
    GRIDE,
    LEVINA_BICKEL,
    MLE,
    RAZZHIGAEV,
    Rows,
    dimension,
    interval,
    isotropic_level,
    refusal,
    rows,
    shared_error,
)
from isoscope.estimation.intrinsic_dimension import gride as gride_fit
from isoscope.estimation.metric import Curve, Question, metric, series
from isoscope.estimation.neighbours import Neighbours, neighbours
from isoscope.estimation.resampled_neighbours import among, mean_length

BATCH = 4096
_dimension = partial(
    metric, reads=("neighbours",), range=(0.0, np.inf), interval_about=THIS_N, at_least=3, question=Question.INTRINSIC_DIMENSION
)


@_dimension(title="Intrinsic dimension (TwoNN)")
def two_nn(cloud: Cloud) -> Number:
    """The number of dimensions in which a point's nearest neighbours lie around it.

    The slope through the origin of −ln(1 − F(μ)) on ln μ over the sample's distinct points, μ = r₂/r₁ the ratio of the distances to the
    second and the first neighbour, without the largest tenth of μ: the preset `facco`. In high dimension it is biased: see its null.

    Range 0 to ∞; null: its mean over isotropic Gaussian clouds of this n and d, far below d if d is high.

    Facco, d'Errico, Rodriguez and Laio (2017).
    """
    return dimension(cloud, FACCO)


@_dimension(title="Intrinsic dimension (TwoNN, likelihood)", on_request=True)
def two_nn_mle(cloud: Cloud) -> Number:
    """The intrinsic dimension by two neighbours, fitted by maximum likelihood to all distinct points of the sample.

    ``(n − 1)/Σ ln μ``, μ = r₂/r₁: the preset `mle`. It is the most precise preset if the model holds, but a few points with a very near
    neighbour move it more than they move `two_nn`.

    Range 0 to ∞; null: its mean over isotropic Gaussian clouds of this n and d.

    Facco et al. (2017); Denti et al. (2022).
    """
    return dimension(cloud, MLE)


@_dimension(title="Intrinsic dimension (TwoNN, Razzhigaev)", on_request=True)
def two_nn_razzhigaev(cloud: Cloud) -> Number:
    """The intrinsic dimension by two neighbours as the authors of "The Shape of Learning" compute it, number for number.

    The slope through the origin of −ln(1 − F(μ)) on ln μ over the lowest fifth of μ = r₂/r₁: the preset `razzhigaev`. Exact duplicates stay
    among the points, as they do in the authors' code: points with r₁ < 1e-8 (in mean lengths of a centred point) or μ ≤ 1 + 1e-8 are not
    fitted and still counted in F, which raises the number if there are many. The fifth makes it twice as uncertain as `two_nn`.

    Range 0 to ∞; null: its mean over isotropic Gaussian clouds of this n and d.

    Razzhigaev et al. (2024).
    """
    return dimension(cloud, RAZZHIGAEV)


@_dimension(title="Intrinsic dimension (batches of 4,096)", on_request=True)
def two_nn_batches(cloud: Cloud) -> Number:
    """The intrinsic dimension as "The Shape of Learning" reports it: `two_nn_razzhigaev` of shuffled batches of 4,096 points, averaged.

    The sample is in random order and is cut into whole batches; a smaller sample is one batch. The note says how many
    there are and their standard deviation, which the paper draws as its band. The interval is not that band: it is for the mean, and
    knows that tokens of one item are in several batches.

    Range 0 to ∞; null: its mean over isotropic Gaussian clouds of the batch's n and d.

    Razzhigaev et al. (2024).
    """
    sample = cloud.require_sample()
    m = len(sample)
    count, size = max(m // BATCH, 1), min(m, BATCH)
    parts, distinct, repeated = [], m, 0
    try:
        for i in range(count):
            points, unit = sample.points[i * size : (i + 1) * size], sample.unit[i * size : (i + 1) * size]
            nearest = cloud.neighbours(2) if size == m else neighbours(points, 2)
            parts.append(rows(nearest, RAZZHIGAEV, unit, mean_length(points)))
            distinct, repeated = min(distinct, len(nearest.kept)), repeated + nearest.duplicates
    except IsoscopeError as error:
        return Number(math.nan, n=m, d=cloud.d, note=str(error))
    fits = [RAZZHIGAEV.fit(part.distances) for part in parts]
    values = np.array([fit.value for fit in fits])
    if distinct < FEWEST or not np.isfinite(values).all():
        return Number(math.nan, n=m, d=cloud.d, note=refusal(distinct))
    influence = np.concatenate([fit.influence for fit in fits])
    low, high = interval(float(values.mean()), *shared_error(influence, _stack_batches(parts, size)))
    # The null is of one batch, whose size sets the bias. The mean of several batches only has a smaller spread.
    null, null_sd = isotropic_level(RAZZHIGAEV, distinct, cloud.d)
    note = f"{count} batches of {size:,}, standard deviation {values.std(ddof=1):.3g}" if count > 1 else f"one batch of {size:,}"
    note = "; ".join(filter(None, (note, cloud.duplicates_note(repeated, "kept"))))
    return Number(float(values.mean()), n=count * size, d=cloud.d, low=low, high=high, null=null, null_sd=null_sd / count**0.5, note=note)


@series(reads=("neighbours",), title="Intrinsic dimension over sample size", on_request=True)
def two_nn_sizes(cloud: Cloud) -> Curve:
    """Whether the intrinsic dimension has settled: `two_nn` of n/16, n/8, n/4, n/2 and of all n distinct points of the sample.

    x is the size, y the mean over the disjoint subsamples of that size, the weight their standard deviation (for the whole sample, its
    standard error). A curve that still rises at its right end says that the dimension is higher than any of its values. Empty if
    there are fewer than ten distinct points; sizes below ten are left out.

    Facco, d'Errico, Rodriguez and Laio (2017).
    """
    sample = cloud.require_sample()
    try:
        nearest = cloud.neighbours()
    except IsoscopeError:
        return np.zeros(0), np.zeros(0), np.zeros(0)
    n = len(nearest.kept)
    if n < FEWEST:
        return np.zeros(0), np.zeros(0), np.zeros(0)
    points = sample.points[nearest.kept]
    curve: list[tuple[float, float, float]] = []
    for parts in (16, 8, 4, 2):
        size = n // parts
        if size >= FEWEST:
            values = [FACCO.fit(_two_distances(nearest, points, np.arange(i * size, (i + 1) * size))).value for i in range(parts)]
            curve.append((size, float(np.mean(values)), float(np.std(values, ddof=1))))
    all_rows = rows(nearest, FACCO, sample.unit)
    fit = FACCO.fit(all_rows.distances)
    if np.isfinite(fit.value):
        curve.append((n, fit.value, float(np.nan_to_num(shared_error(fit.influence, all_rows)[0]))))
    x, y, weight = np.array([row for row in curve if np.isfinite(row).all()]).reshape(-1, 3).T
    return x, y, weight


def _stack_batches(parts: list[Rows], size: int) -> Rows:
    """The rows of all batches; no point of one batch is a point of another."""
    points = [part.points + i * size for i, part in enumerate(parts)]
    return Rows(*(np.concatenate(columns) for columns in ([part.distances for part in parts], points, [part.unit for part in parts])))


def _two_distances(nearest: Neighbours, points: np.ndarray, chosen: np.ndarray) -> Floats:
    """The distances to the two nearest among the chosen points: from the known neighbours if these are enough."""
    # A sixteenth of the points holds about eight of a point's 128 known neighbours, so a new search is rarely needed.
    part = among(nearest, chosen, 2)
    return part.distances if part.complete else neighbours(points[chosen], 2).distances


@_dimension(title="Intrinsic dimension (GRIDE, 8 to 16)", on_request=True)
def gride(cloud: Cloud) -> Number:
    """The intrinsic dimension at the scale of the 8th to the 16th neighbour.

    The d that maximises the likelihood of μ = r₁₆/r₈, Π (μ^d − 1)⁷ · d/μ^(15d+1), over the sample's distinct points. Noise and
    near-duplicates that are smaller than r₈ do not count in it; density that changes between r₈ and r₁₆ does. All scales: `gride_scales`.

    Range 0 to ∞; null: its mean over isotropic Gaussian clouds of this n and d.

    Denti, Doimo, Laio and Mira (2022).
    """
    return dimension(cloud, GRIDE)


@_dimension(title="Intrinsic dimension (Levina–Bickel, 20)", on_request=True)
def levina_bickel(cloud: Cloud) -> Number:
    """The intrinsic dimension by maximum likelihood over the 20 nearest neighbours.

    ``n(k − 1)/ΣΣ ln(r_k/r_j)``, k = 20, over the sample's distinct points: the points' estimates joined by the harmonic mean (MacKay and
    Ghahramani), not by the plain mean of the first paper. More precise than `two_nn`, and more biased: its neighbourhoods are larger.

    Range 0 to ∞; null: its mean over isotropic Gaussian clouds of this n and d.

    Levina and Bickel (2004); MacKay and Ghahramani (2005).
    """
    return dimension(cloud, LEVINA_BICKEL)


@series(reads=("neighbours",), title="Intrinsic dimension over scales (GRIDE)", on_request=True)
def gride_scales(cloud: Cloud) -> Curve:
    """The intrinsic dimension from the ratio of the distances to the 2m-th and the m-th neighbour, m = 1, 2, 4 … 64.

    x is m, y the dimension, the weight the mean distance to the 2m-th neighbour. Noise raises the left end; at the right end an edge
    lowers the curve and a bend raises it. The dimension can be read where the curve is flat. Empty if there are fewer than ten distinct
    points.

    Denti, Doimo, Laio and Mira (2022).
    """
    try:
        distances = cloud.neighbours().distances
    except IsoscopeError:
        return np.zeros(0), np.zeros(0), np.zeros(0)
    reach = distances.shape[1] if len(distances) >= FEWEST else 0
    scales = [1 << i for i in range(7) if 2 << i <= reach]
    curve = [(m, gride_fit(distances, m).value, float(distances[:, 2 * m - 1].mean()) * cloud.unit) for m in scales]
    x, y, weight = np.array([row for row in curve if np.isfinite(row).all()]).reshape(-1, 3).T
    return x, y, weight
