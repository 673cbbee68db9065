"""The norms of points: their mean, and their distribution as a curve."""

from __future__ import annotations

import numpy as np

from isoscope.core.number import POPULATION, Number
from isoscope.estimation.cloud import Cloud
from isoscope.estimation.declaration import Question
from isoscope.estimation.metric import Curve, metric, series

BINS = 40


@metric(
    reads=("sums",),
    wants=("groups",),
    range=(0.0, np.inf),
    interval_about=POPULATION,
    title="Mean norm",
    question=Question.COMMON_MEAN,
    at_least=1,
)
def mean_norm(cloud: Cloud) -> Number:
    """How long the points are on average: E‖x‖.

    Range 0 to ∞. It has no null: a length says nothing of directions.

    >>> mean_norm([[3.0, 4.0], [0.0, 1.0]])
    3.0
    """
    low, high = cloud.grouped(lambda t: np.asarray(t.norm / t.n), bounds=(0.0, np.inf))
    return Number(cloud.moments.norm / cloud.n, n=cloud.n, d=cloud.d, low=low, high=high).scaled_by(cloud.unit)


@series(reads=("sample",), title="Norms")
def norms(cloud: Cloud) -> Curve:
    """A histogram of the sample's norms: bin centres, the part of the points in each, and the bins' widths.

    Bins are even on a logarithmic scale if the largest norm is more than ten times the median, so that massive points show.
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
