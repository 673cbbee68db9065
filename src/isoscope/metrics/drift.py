"""The length of the common mean, the part of the squared length that it makes, and the norms of the points."""

from __future__ import annotations

from functools import partial

import numpy as np

from isoscope.core.number import POPULATION, Number
from isoscope.core.numerics import Floats
from isoscope.estimation.cloud import Cloud
from isoscope.estimation.isotropic_quantiles import clipped_square
from isoscope.estimation.metric import Curve, Question, metric, series
from isoscope.statistics.jackknife_groups import Totals

BINS = 40
"""Bins of the histogram of norms."""
_drift = partial(metric, reads=("sums",), wants=("groups",), interval_about=POPULATION, question=Question.COMMON_MEAN)


@_drift(range=(0.0, 1.0), title="Drift ratio")
def drift_ratio(cloud: Cloud) -> Number:
    """How much of the points' squared length is their common mean: 0 for a centred cloud, 1 if all points are equal.

    ``‖μ‖² / E‖x‖²``, with ‖μ‖² estimated from pairs of points of different documents, as `drift_norm` does it: ‖x̄‖² itself would be too
    large by chance. An estimate below 0, which happens if μ is near 0, is given as 0.

    Range 0 to 1. Null: points in random directions. In about half of such clouds the number is 0; its mean is about 0.40·s and its standard
    deviation 0.59·s with s = √(2/(d·pairs)).

    >>> drift_ratio([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    0.333 [0.333, 0.333], isotropic 0.106
    """
    t, n, d = cloud.totals, cloud.n, cloud.d
    pairs = float(t.n**2 - t.raw_pairs)
    if not pairs > 0:
        return Number(np.nan, n=n, d=d, note="all points come from one item")
    if not t.norm2 > 0:
        return Number(np.nan, n=n, d=d, note="all points are zero")
    low, high = cloud.jackknife_interval(_ratio, bounds=(0.0, 1.0), transform=_within_range)
    chance = (2 / (d * pairs)) ** 0.5
    mean, sd = clipped_square(d, 1.0)
    return Number(float(_within_range(_ratio(t))), n=n, d=d, low=low, high=high, null=mean * chance, null_sd=sd * chance)


@_drift(range=(0.0, np.inf), title="Drift: norm of the mean")
def drift_norm(cloud: Cloud) -> Number:
    """How far the centre of the population lies from the origin: ‖μ‖, estimated from pairs of points of different documents.

    ``√((‖Σx‖² − Σ_item‖X_item‖²) / (n² − Σn_item²))`` with X_item an item's Σx. The plain ‖x̄‖ is too long by chance, because pairs
    within an item are alike whatever μ is. If the square lies below 0, which happens if μ is near 0, the number is 0. The interval is
    that of the square, with the root taken of both ends. In a matrix every row is an item.

    Range 0 to ∞. Null: points in random directions. In about half of such clouds the number is 0; its mean is about 0.41·√s and its
    standard deviation 0.48·√s with s = E‖x‖²·√(2/(d·pairs)).

    Godey, de la Clergerie and Sagot (2024) measure the plain ‖x̄‖.

    >>> drift_norm([[3.0, 0.0], [1.0, 0.0]])
    1.73, isotropic 0.61
    """
    t, n, d = cloud.totals, cloud.n, cloud.d
    pairs = float(t.n**2 - t.raw_pairs)
    if not pairs > 0:
        return Number(np.nan, n=n, d=d, note="all points come from one item")
    # The interval is of the square, whose estimate varies evenly around it and may lie below 0, where a root is not defined.
    low, high = cloud.jackknife_interval(lambda t: t.squared_mean, bounds=(0.0, np.inf), transform=_root)
    chance = (float(t.norm2) / n * (2 / (d * pairs)) ** 0.5) ** 0.5
    mean, sd = clipped_square(d, 0.5)
    return Number(float(_root(t.squared_mean)), n=n, d=d, low=low, high=high, null=mean * chance, null_sd=sd * chance).scaled_by(cloud.unit)


def _ratio(t: Totals) -> Floats:
    return np.asarray(t.squared_mean * t.n / t.norm2)


def _within_range(ratio: Floats) -> Floats:
    return np.clip(ratio, 0.0, 1.0)


def _root(square: Floats) -> Floats:
    return np.asarray(np.sqrt(np.maximum(square, 0.0)))


@_drift(range=(0.0, np.inf), title="Mean norm", at_least=1)
def mean_norm(cloud: Cloud) -> Number:
    """How long the points are on average: E‖x‖.

    Range 0 to ∞. It has no null: a length says nothing about directions.

    >>> mean_norm([[3.0, 4.0], [0.0, 1.0]])
    3.00
    """
    low, high = cloud.jackknife_interval(lambda t: np.asarray(t.norm / t.n), bounds=(0.0, np.inf))
    return Number(cloud.moments.norm / cloud.n, n=cloud.n, d=cloud.d, low=low, high=high).scaled_by(cloud.unit)


@series(reads=("sample",), title="Norms")
def norms(cloud: Cloud) -> Curve:
    """A histogram of the sample's norms: bin centres, the part of the points in each, and the bins' widths.

    Bins are even on a logarithmic scale if the largest norm is more than ten times the median, so that massive points show.
    """
    lengths = np.linalg.norm(cloud.require_sample().points.astype(np.float64), axis=1) * cloud.unit
    lengths = lengths[lengths > 0]
    if not len(lengths):
        return np.zeros(0), np.zeros(0), np.zeros(0)
    low, high = float(lengths.min()), float(lengths.max())
    if high <= low * (1 + 1e-9):
        return np.array([low]), np.ones(1), np.zeros(1)
    edges = np.geomspace(low, high, BINS + 1) if high > 10 * float(np.median(lengths)) else np.linspace(low, high, BINS + 1)
    counts, edges = np.histogram(lengths, edges)
    return (edges[1:] + edges[:-1]) / 2, counts / len(lengths), np.diff(edges)
