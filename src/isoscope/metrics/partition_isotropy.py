"""The partition-function measure of isotropy."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from isoscope.core.number import THIS_N, Number
from isoscope.core.numerics import Floats
from isoscope.estimation.cloud import Cloud, own_axes
from isoscope.estimation.metric import Question, metric
from isoscope.estimation.sample_documents import NARROW_ABOVE, SampleDocuments, axes_of, bootstrap_weights, narrow_product

DRAWS = 100
ROWS = 128
"""Points whose exponentials are computed at a time, if a document has no more."""
ROUNDING = 1e-5
"""More than products in float32 move x·c, as a part of the longest x."""


def _log_partition(along: Floats, documents: SampleDocuments, weights: Floats) -> Floats:
    """Return (draws, directions, 2) ln Z(c) and ln Z(−c) from x·c (m, directions), for draws that weight the documents."""
    # The largest exponent is taken out first: exp(c·x) of a massive point overflows.
    tops = np.stack([along.max(0), -along.min(0)])
    sums = np.zeros((2, len(documents.hashes) if len(weights) > 1 else 1, along.shape[1]))
    # A few points at a time, because fresh memory costs more than the exponentials that fill it.
    for first, last in documents.runs(ROWS):
        rows = along[documents.starts[first] : documents.starts[last]]
        for sign, top, total in zip((1, -1), tops, sums, strict=True):
            terms = np.multiply(rows, sign)
            terms -= top
            np.exp(terms, out=terms)
            if len(weights) > 1:
                documents.sum(terms, first, last, out=total[first:last])
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
    logs = _log_partition(along * unit, documents, weights)
    lengths = np.sqrt(np.vecdot(documents.points, documents.points))
    if documents.narrow:
        # The products were taken in float32. Those that may lead to the smallest or to the largest Z are taken once more in float64.
        margin = ROUNDING * unit * float(lengths.max())
        extreme = (logs[0] <= logs[0].min() + margin) | (logs[0] >= logs[0].max() - margin)
        chosen = np.flatnonzero(extreme.any(1))
        logs[:1, chosen] = _log_partition(documents.points @ vectors[:, chosen] * unit, documents, weights[:1])
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
    axes = axes_of(random)
    products = narrow_product(random, axes) if random.dtype == np.float32 else random @ axes
    null = float(_log_ratios(_log_partition(products * (longest * unit), documents, weights[:1]), outside[:1])[0])
    return Number(float(value), n=m, d=d, low=low, high=high, null=null)
