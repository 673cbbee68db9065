"""The partition-function measure of isotropy."""

from __future__ import annotations

import numpy as np

from isoscope.core.number import THIS_N, Number
from isoscope.core.numerics import Floats
from isoscope.estimation.cloud import Cloud
from isoscope.estimation.metric import Question, metric

DRAWS = 100
AT_ONCE = 64
"""Directions that are computed at a time."""


def _log_partition(points: Floats, starts: np.ndarray, weights: Floats, unit: float) -> Floats:
    """(draws, …) ln Z(c) along ± the eigenvectors of XᵀX, for points that lie by document and draws that weight the documents.

    Points are in units of `unit`.
    """
    m, d = points.shape
    logs = []
    if m < d:  # beyond the span of the points every x·c is 0: one direction stands for all of those, and no d × d matrix is made
        basis = np.linalg.svd(points, full_matrices=False)[2].T
        logs.append(np.log(weights @ np.diff(starts, append=m))[:, None])
    else:
        basis = np.linalg.eigh(points.T @ points)[1]
    for start in range(0, basis.shape[1], AT_ONCE):
        along = points @ basis[:, start : start + AT_ONCE] * unit
        for _ in range(2):  # along the eigenvector, and against it
            # The largest exponent is taken out first: exp(c·x) of a massive point overflows.
            top = along.max(0)
            terms = np.exp(along - top)
            by_document = terms if len(starts) == len(terms) else np.add.reduceat(terms, starts)
            logs.append(np.log(np.maximum(weights @ by_document, np.finfo(float).tiny)) + top)
            np.negative(along, out=along)
    return np.concatenate(logs, axis=1)


def _log_ratio(logs: Floats) -> Floats:
    return np.asarray(logs.min(-1) - logs.max(-1))


@metric(reads=("sample",), range=(-np.inf, 0.0), interval_about=THIS_N, title="Partition isotropy (log)", question=Question.DIRECTIONS)
def partition_isotropy(cloud: Cloud) -> Number:
    """How much the partition function depends on direction, as a logarithm: 0 is isotropic, very negative is not.

    ``ln(min Z / max Z)`` with Z(c) = Σ exp(c·x) and c over ± the eigenvectors of XᵀX, uncentred, on the sample. Both signs, because
    an eigenvector's own is arbitrary; as a logarithm, because the ratio underflows (GPT-2's is about 1e-174).

    Range −∞ to 0. Null: its value for uniform directions and the observed norms, one draw.

    Mu and Viswanath (2018); Arora et al. (2016).
    """
    sample = cloud.require_sample()
    order = np.argsort(sample.unit, kind="stable")
    documents, starts = np.unique(sample.unit[order], return_index=True)
    points = sample.points[order].astype(np.float64)
    m, d = points.shape
    weights = np.ones((1, len(documents)))
    if len(documents) >= 3:
        draws = np.random.default_rng(0).multinomial(len(documents), np.full(len(documents), 1 / len(documents)), size=DRAWS)
        weights = np.concatenate([weights, draws])
    value, *drawn = _log_ratio(_log_partition(points, starts, weights, cloud.unit))
    low = high = np.nan
    if drawn:
        # A minimum and a maximum over directions make draws lie lower on average. Their spread is moved onto the value, not their mean.
        low, high = (min(float(q), 0.0) for q in value + np.quantile(drawn - np.mean(drawn), [0.025, 0.975]))
    lengths = np.linalg.norm(points, axis=1, keepdims=True)
    del points
    random = np.random.default_rng(0).standard_normal((m, d))
    random *= lengths / np.linalg.norm(random, axis=1, keepdims=True)
    null = float(_log_ratio(_log_partition(random, starts, weights[:1], cloud.unit))[0])
    return Number(float(value), n=m, d=d, low=low, high=high, null=null)
