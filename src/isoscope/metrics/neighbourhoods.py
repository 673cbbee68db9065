"""Local geometry: the shape of neighbourhoods and of clusters, and hubs."""

from __future__ import annotations

from functools import lru_cache, partial

import numpy as np

from isoscope.core.errors import IsoscopeError
from isoscope.core.number import THIS_N, Number
from isoscope.core.numerics import margin
from isoscope.estimation.cloud import Cloud
from isoscope.estimation.clusters import cluster_number
from isoscope.estimation.local_geometry import local_number
from isoscope.estimation.metric import Question, metric
from isoscope.estimation.resampled_neighbours import Among, isotropic_clouds, jackknife_error, round_sample_size
from isoscope.statistics.sample import mix

_local = partial(metric, reads=("sample",), interval_about=THIS_N, question=Question.LOCAL_GEOMETRY, on_request=True)
_cluster = partial(metric, reads=("sample",), range=(0.0, 1.0), interval_about=THIS_N, question=Question.LOCAL_GEOMETRY, on_request=True)
HUB_NEIGHBOURS = 10
"""Hubs are counted among this many nearest neighbours."""


@_local(range=(0.0, 1.0), title="Local top share")
def local_share(cloud: Cloud) -> Number:
    """The part of a neighbourhood's variance that lies along its own strongest direction, averaged over neighbourhoods.

    ``λ₁/Σλ`` of the 64 nearest neighbours in other documents, about their own mean, averaged over 256 points of the sample.

    Range 0 to 1; at least 1/63, however isotropic. Null: its mean over Gaussian clouds of exactly this mean and covariance, with as
    many points and the same correlation within documents; `local_share_excess` says whether the cloud differs from them. The note
    has the value of all points, and with dimensions shuffled.

    Razzhigaev et al. (2024).
    """
    return local_number(cloud, "share")


@_local(range=(-1.0, 1.0), title="Local top share, less a Gaussian's")
def local_share_excess(cloud: Cloud) -> Number:
    """How much more one direction dominates neighbourhoods than it would in a Gaussian of the same covariance: below 0 is more isotropic.

    ``local_share − its null``. That a cloud is locally isotropic says something only if the whole interval lies below 0: any
    Gaussian's neighbourhoods are more isotropic than the whole of it.

    Range −1 to 1. Null: 0, with the spread of one Gaussian cloud about the mean of others.

    Razzhigaev et al. (2024) without the control.
    """
    return local_number(cloud, "share", excess=True)


@_local(range=(0.0, 1.0), title="Local IsoScore")
def local_isoscore(cloud: Cloud) -> Number:
    """How evenly a neighbourhood's variance is spread over all d directions, averaged over neighbourhoods.

    ``(PR − 1)/(d − 1)`` of the 64 nearest neighbours in other documents, about their own mean, averaged over 256 points of the sample.

    Range 0 to 1; at most 62/(d − 1) if that is less, since 64 points span 63 directions. Null: its mean over Gaussian clouds of
    exactly this mean and covariance, with as many points; `local_isoscore_excess` says whether the cloud differs from them. The note has
    the value of all points, and with dimensions shuffled.

    Rudman et al. (2022), of neighbourhoods as in Razzhigaev et al. (2024).
    """
    return local_number(cloud, "isoscore")


@_local(range=(-1.0, 1.0), title="Local IsoScore, less a Gaussian's")
def local_isoscore_excess(cloud: Cloud) -> Number:
    """How much more evenly neighbourhoods are spread than they would be in a Gaussian of the same covariance: above 0 is more isotropic.

    ``local_isoscore − its null``. That a cloud is locally isotropic says something only if the whole interval lies above 0: any
    Gaussian's neighbourhoods are more isotropic than the whole of it.

    Range −1 to 1. Null: 0, with the spread of one Gaussian cloud about the mean of others.

    Razzhigaev et al. (2024) without the control.
    """
    return local_number(cloud, "isoscore", excess=True)


@_cluster(title="Cluster top share")
def cluster_share(cloud: Cloud) -> Number:
    """The part of a cluster's variance that lies along its own strongest direction, averaged over clusters by their size.

    ``λ₁/Σλ`` of each cluster of k-means about its own centre. k is the one of 2, 4, 8, 16 and 32 with the largest simplified silhouette.

    Range 0 to 1. Null: its mean over Gaussian clouds of exactly this mean and covariance, with as many points in as many clusters. The
    note has k, the value of all points, and with dimensions shuffled. The interval takes the clusters as they are.

    Rajaee and Pilehvar (2021).
    """
    return cluster_number(cloud, "share")


@_cluster(title="Cluster IsoScore")
def cluster_isoscore(cloud: Cloud) -> Number:
    """How evenly a cluster's variance is spread over all d directions, averaged over clusters by their size.

    ``(PR − 1)/(d − 1)`` of each cluster of k-means about its own centre. k is the one of 2, 4, 8, 16 and 32 with the largest simplified
    silhouette.

    Range 0 to 1. Null: its mean over Gaussian clouds of exactly this mean and covariance, with as many points in as many clusters. The
    note has k, the value of all points, and with dimensions shuffled. The interval takes the clusters as they are.

    Rajaee and Pilehvar (2021), who use another score.
    """
    return cluster_number(cloud, "isoscore")


def _occurrences(indices: np.ndarray, n: int) -> np.ndarray:
    """(n,) the number of rows that list each of n points."""
    return np.bincount(indices[:, :HUB_NEIGHBOURS].ravel(), minlength=n)


def _skewness(counts: np.ndarray) -> float:
    """The third central moment over the cube of the standard deviation; 0 if all are equal."""
    away = counts - counts.mean()
    variance = float((away**2).mean())
    return float((away**3).mean()) / variance**1.5 if variance > 0 else 0.0


def _hubness_of(part: Among) -> float:
    """The hubness of a part of the points; NaN if none of them has ten neighbours in it."""
    return _skewness(_occurrences(part.indices, part.size)) if len(part.indices) else np.nan


@lru_cache(maxsize=64)
def _chance(n: int, d: int) -> tuple[float, float]:
    """The mean hubness of isotropic clouds, and the sd of one: over the draws or, if there is only one, by the jackknife."""
    # These clouds are cached, and intrinsic dimensions take their nulls from the same ones.
    draws = [cloud.found for cloud in isotropic_clouds(n, d)]
    values = [_skewness(_occurrences(nearest.indices, n)) for nearest in draws]
    if len(draws) > 1:
        return float(np.mean(values)), float(np.std(values, ddof=1))
    return values[0], jackknife_error(draws[0], HUB_NEIGHBOURS, _hubness_of, mix(np.arange(n, dtype=np.uint64)))[0]


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
        n = len(cloud.neighbours(HUB_NEIGHBOURS).kept)
    except IsoscopeError as error:
        return Number(np.nan, n=cloud.n, d=cloud.d, note=str(error))
    nearest = cloud.neighbours()
    counts = _occurrences(nearest.indices, n)
    value = _skewness(counts)
    standard_error, freedom = jackknife_error(nearest, HUB_NEIGHBOURS, _hubness_of, cloud.require_sample().unit)
    half = margin(standard_error, freedom)
    null, null_sd = _chance(round_sample_size(n), cloud.d)
    note = f"the largest hub is a neighbour of {counts.max() / n:.1%} of {n} points"
    note = ", ".join(filter(None, (note, cloud.duplicates_note(nearest.duplicates, "left out"))))
    return Number(value, n=n, d=cloud.d, low=value - half, high=value + half, null=null, null_sd=null_sd, note=note)
