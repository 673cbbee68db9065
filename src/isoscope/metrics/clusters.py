"""The top share and the IsoScore of clusters."""

from __future__ import annotations

from functools import partial

from isoscope.core.number import THIS_N, Number
from isoscope.estimation.cloud import Cloud
from isoscope.estimation.clusters import cluster_number
from isoscope.estimation.declaration import Question
from isoscope.estimation.metric import metric

_cluster = partial(metric, reads=("sample",), range=(0.0, 1.0), interval_about=THIS_N, question=Question.LOCAL_GEOMETRY, on_request=True)


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
