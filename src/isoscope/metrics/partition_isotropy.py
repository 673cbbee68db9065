"""The partition-function measure of isotropy."""

from __future__ import annotations

import numpy as np

from isoscope.core.number import Number
from isoscope.statistics.cloud import Cloud
from isoscope.statistics.kernel import Floats
from isoscope.statistics.metric import metric

DRAWS = 100


def _logs(points: Floats) -> tuple[Floats, Floats]:
    """Each point's c·x along ±eigenvectors c of XᵀX, less the largest of each column, and that largest."""
    _, vectors = np.linalg.eigh(points.T @ points)
    along = points @ vectors
    both = np.concatenate([along, -along], axis=1)
    top = both.max(0)
    both -= top
    return both, top


def _log_ratio(logs: Floats) -> Floats:
    return np.asarray(logs.min(-1) - logs.max(-1))


@metric(reads=("sample",), range=(-np.inf, 0.0), title="Partition isotropy (log)")
def partition_isotropy(cloud: Cloud) -> Number:
    """How much the partition function depends on direction, as a logarithm: 0 is isotropic, very negative is not.

    ``ln(min Z / max Z)`` with Z(c) = Σ exp(c·x) and c over ± the eigenvectors of XᵀX, uncentred, on the sample. Both signs, because
    an eigenvector's own is arbitrary; as a logarithm, because the ratio underflows (GPT-2's is about 1e-174).

    Range −∞ to 0. Null: its value for uniform directions and the observed norms, one draw.

    Mu and Viswanath (2018); Arora et al. (2016).
    """
    sample = cloud.drawn
    points = sample.points.astype(np.float64)
    m, d = points.shape
    shifted, top = _logs(points)
    terms = np.exp(shifted)
    value = float(_log_ratio(np.log(terms.sum(0)) + top))
    low = high = np.nan
    documents, owner = np.unique(sample.unit, return_inverse=True)
    if len(documents) >= 3:
        order = np.argsort(owner, kind="stable")
        by_document = np.add.reduceat(terms[order], np.searchsorted(owner[order], np.arange(len(documents))))
        rng = np.random.default_rng(0)
        weights = rng.multinomial(len(documents), np.full(len(documents), 1 / len(documents)), size=DRAWS)
        draws = _log_ratio(np.log(np.maximum(weights @ by_document, np.finfo(float).tiny)) + top)
        low, high = (min(float(q), 0.0) for q in value + np.quantile(draws - draws.mean(), [0.025, 0.975]))
    random = np.random.default_rng(0).standard_normal((m, d))
    random *= np.linalg.norm(points, axis=1, keepdims=True) / np.linalg.norm(random, axis=1, keepdims=True)
    shifted, top = _logs(random)
    null = float(_log_ratio(np.log(np.exp(shifted).sum(0)) + top))
    return Number(value, n=m, d=d, low=low, high=high, null=null)
