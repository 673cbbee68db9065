"""The partition-function measure of isotropy."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from isoscope.core.number import THIS_N, Number
from isoscope.core.numerics import Floats
from isoscope.estimation.cloud import Cloud, own_axes
from isoscope.estimation.metric import Question, metric
from isoscope.estimation.sample_documents import NARROW_ABOVE, ROWS, SampleDocuments, axes_of, bootstrap_weights, narrow_product

DRAWS = 100
ROUNDING = 1e-5
"""More than products in float32 move x·c, as a part of the longest x."""
FLOOR = 1e-5
"""More than exponentials in float32, and sums of them, move ln Z."""
SHORT = 80.0
"""Where x·c spans less than this, none of its exponentials vanishes in float32, which takes a fifth of the time of float64."""


def _log_partition(along: np.ndarray, documents: SampleDocuments, weights: Floats, scale: float) -> Floats:
    """Return (draws, directions, 2) ln Z(c) and ln Z(−c) from x·c (m, directions), times a scale, for draws that weight the documents."""
    # The largest exponent is taken out first: exp(c·x) of a massive point overflows.
    tops = np.stack([along.max(0), -along.min(0)]).astype(np.float64) * scale
    # Of a draw without the largest point, what vanishes next to it may be all that there is.
    wide = np.float32 if along.dtype == np.float32 and float(tops.sum(0).max(initial=0.0)) < SHORT else np.float64
    sums = np.zeros((2, len(documents.hashes) if len(weights) > 1 else 1, along.shape[1]))
    for first, last in documents.runs(ROWS):
        rows = along[documents.starts[first] : documents.starts[last]]
        for sign, top, total in zip((scale, -scale), tops.astype(wide), sums, strict=True):
            terms = np.multiply(rows, sign, dtype=wide)
            terms -= top
            np.exp(terms, out=terms)
            if len(weights) > 1:
                total[first:last] = documents.sum(terms, first, last)
            else:
                total += terms.sum(0)
    if len(weights) > 1:
        sums = weights @ sums
    return np.moveaxis(np.log(np.maximum(sums, np.finfo(float).tiny)) + tops[:, None], 0, -1)


def _log_ratios(logs: Floats, outside: Floats) -> Floats:
    """Return (draws,) ln(min Z / max Z); `outside` is ln Z beyond the span of the points, NaN if there is nothing beyond."""
    return np.asarray(np.fmin(logs.min((1, 2)), outside) - np.fmax(logs.max((1, 2)), outside))


@lru_cache(maxsize=2)
def _uniform_directions(rows: int, d: int) -> np.ndarray:
    """Return (rows, d) random directions, the same in each process. The first rows do not depend on how many there are."""
    directions = np.random.default_rng(0).standard_normal((rows, d))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return directions.astype(np.float32) if d > NARROW_ABOVE else directions


@metric(reads=("sample",), range=(-np.inf, 0.0), interval_about=THIS_N, title="Partition isotropy (log)", question=Question.DIRECTIONS)
def partition_isotropy(cloud: Cloud) -> Number:
    """How much the partition function depends on direction, as a logarithm: 0 is isotropic, very negative is not.

    ``ln(min Z / max Z)`` with Z(c) = Σ exp(c·x) and c over ± the eigenvectors of XᵀX, uncentred, on the sample. Both signs, because
    an eigenvector's own is arbitrary; as a logarithm, because the ratio underflows (GPT-2's is about 1e-174).

    Range −∞ to 0. Null: its value for uniform directions and the observed norms, one draw.

    Mu and Viswanath (2018); Arora et al. (2016).
    """
    documents, unit = cloud.documents, cloud.unit
    m, d = documents.points.shape
    weights = bootstrap_weights(len(documents.hashes), DRAWS if len(documents.hashes) >= 3 else 0)
    vectors, along = cloud.cached(own_axes)
    logs = _log_partition(along, documents, weights, unit)
    lengths = np.sqrt(documents.squared_lengths())
    if along.dtype == np.float32:
        # The directions that may have the smallest or the largest Z are taken once more in float64.
        margin = ROUNDING * unit * float(lengths.max()) + FLOOR
        extreme = (logs[0] <= logs[0].min() + margin) | (logs[0] >= logs[0].max() - margin)
        chosen = np.flatnonzero(extreme.any(1))
        logs[:1, chosen] = _log_partition(documents.points @ vectors[:, chosen], documents, weights[:1], unit)
    # Beyond the span of the points every x·c is 0, and Z is their number.
    outside = np.log(weights @ documents.counts) if vectors.shape[1] < d else np.full(len(weights), np.nan)
    value, *drawn = _log_ratios(logs, outside)
    low = high = np.nan
    if drawn:
        # A minimum and a maximum over directions make draws lie lower on average. Their spread is moved onto the value, not their mean.
        low, high = (min(float(q), 0.0) for q in value + np.quantile(drawn - np.mean(drawn), [0.025, 0.975]))
    # Clouds of nearly as many points share the directions, which take longer to draw than all the rest.
    directions, longest = _uniform_directions(1 << (m - 1).bit_length(), d)[:m], float(lengths.max()) or 1.0
    random = directions * (lengths / longest).astype(directions.dtype)[:, None]
    products = narrow_product(random, axes_of(random))
    null = float(_log_ratios(_log_partition(products, documents, weights[:1], longest * unit), outside[:1])[0])
    return Number(float(value), n=m, d=d, low=low, high=high, null=null)
