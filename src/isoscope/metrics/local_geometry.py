"""The top share and the IsoScore of neighbourhoods, and how far each lies from that of a Gaussian with the same covariance."""

from __future__ import annotations

from functools import partial

from isoscope.core.number import THIS_N, Number
from isoscope.estimation.cloud import Cloud
from isoscope.estimation.declaration import Question
from isoscope.estimation.local_geometry import local_excess, local_number
from isoscope.estimation.metric import metric

_local = partial(metric, reads=("sample",), interval_about=THIS_N, question=Question.LOCAL_GEOMETRY, on_request=True)


@_local(range=(0.0, 1.0), title="Local top share")
def local_share(cloud: Cloud) -> Number:
    """The part of a neighbourhood's variance that lies along its own strongest direction, averaged over neighbourhoods.

    ``λ₁/Σλ`` of the 64 nearest neighbours in other documents, about their own mean, averaged over 256 points of the sample.

    Range 0 to 1; at least 1/63, however isotropic. Null: its mean over Gaussian clouds of exactly this mean and covariance, with as
    many points, of which those of a document share as much; `local_share_excess` says whether the cloud differs from them. The note
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
    return local_excess(cloud, "share")


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
    return local_excess(cloud, "isoscore")
