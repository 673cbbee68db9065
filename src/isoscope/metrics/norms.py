"""The distribution of norms, as a curve."""

from __future__ import annotations

import numpy as np

from isoscope.statistics.cloud import Cloud
from isoscope.statistics.metric import Curve, series

BINS = 40


@series(reads=("sample",), title="Norms")
def norms(cloud: Cloud) -> Curve:
    """A histogram of the sample's norms: bin centres, the part of the points in each, and the bins' widths.

    Bins are even on a logarithmic scale where the largest norm is more than ten times the median, so that massive points show.
    """
    lengths = np.linalg.norm(cloud.drawn.points.astype(np.float64), axis=1) * cloud.unit
    lengths = lengths[lengths > 0]
    if not len(lengths):
        return np.zeros(0), np.zeros(0), np.zeros(0)
    low, high = float(lengths.min()), float(lengths.max())
    if high <= low * (1 + 1e-9):
        return np.array([low]), np.ones(1), np.zeros(1)
    edges = np.geomspace(low, high, BINS + 1) if high > 10 * float(np.median(lengths)) else np.linspace(low, high, BINS + 1)
    counts, edges = np.histogram(lengths, edges)
    return (edges[1:] + edges[:-1]) / 2, counts / len(lengths), np.diff(edges)
