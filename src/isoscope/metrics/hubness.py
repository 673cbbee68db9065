"""Hubness: whether a few points are neighbours of very many others."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from isoscope.core.errors import IsoscopeError
from isoscope.core.number import THIS_N, Number
from isoscope.core.numerics import margin
from isoscope.estimation.cloud import Cloud
from isoscope.estimation.declaration import Question
from isoscope.estimation.metric import metric
from isoscope.estimation.resampled_neighbours import Among, isotropic_clouds, jackknife_error, matched
from isoscope.statistics.sample import mix

K = 10
"""Neighbours by which points are counted."""


def _occurrences(indices: np.ndarray, n: int) -> np.ndarray:
    """(n,) the number of rows that list each of n points."""
    return np.bincount(indices[:, :K].ravel(), minlength=n)


def _skewness(counts: np.ndarray) -> float:
    """The third central moment over the cube of the standard deviation; 0 if all are equal."""
    away = counts - counts.mean()
    variance = float((away**2).mean())
    return float((away**3).mean()) / variance**1.5 if variance > 0 else 0.0


def _hubness_of(part: Among) -> float:
    """The hubness of a part of the points; NaN if none of them has K neighbours in it."""
    return _skewness(_occurrences(part.indices, part.size)) if len(part.indices) else np.nan


@lru_cache(maxsize=64)
def _chance(n: int, d: int) -> tuple[float, float]:
    """The mean hubness of isotropic clouds, and the sd of one: over the draws or, if there is only one, by the jackknife."""
    draws = [cloud.found for cloud in isotropic_clouds(n, d)]
    values = [_skewness(_occurrences(nearest.indices, n)) for nearest in draws]
    if len(draws) > 1:
        return float(np.mean(values)), float(np.std(values, ddof=1))
    return values[0], jackknife_error(draws[0], K, _hubness_of, mix(np.arange(n, dtype=np.uint64)))[0]


@metric(
    reads=("neighbours",),
    range=(-np.inf, np.inf),
    interval_about=THIS_N,
    title="Hubness",
    question=Question.LOCAL_GEOMETRY,
    on_request=True,
)
def hubness(cloud: Cloud) -> Number:
    """Whether a few points are among the nearest neighbours of very many others: 0 if all are about equally often, 1 and more with hubs.

    The skewness ``E(N − 10)³/sd(N)³`` of N, the number of points of the sample that have a point among their 10 nearest neighbours.

    Range −∞ to ∞. Null: its mean over isotropic Gaussian clouds of this d and of this n to within 1.6 %; it grows with d, since
    hubs come with dimension alone. The note has the largest N, and how many duplicates were left out.

    Radovanović, Nanopoulos and Ivanović (2010).
    """
    try:
        n = len(cloud.neighbours(K).kept)
    except IsoscopeError as error:
        return Number(np.nan, n=cloud.n, d=cloud.d, note=str(error))
    nearest = cloud.neighbours()
    counts = _occurrences(nearest.indices, n)
    value = _skewness(counts)
    standard_error, freedom = jackknife_error(nearest, K, _hubness_of, cloud.drawn.unit)
    half = margin(standard_error, freedom)
    null, null_sd = _chance(matched(n), cloud.d)
    note = f"the largest hub is a neighbour of {counts.max() / n:.1%} of {n} points"
    note = ", ".join(filter(None, (note, cloud.duplicates_note(nearest.duplicates, "left out"))))
    return Number(value, n=n, d=cloud.d, low=value - half, high=value + half, null=null, null_sd=null_sd, note=note)
