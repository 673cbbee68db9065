"""The top share of neighbourhoods."""

from __future__ import annotations

from isoscope.core.number import THIS_N, Number
from isoscope.statistics.cloud import Cloud
from isoscope.statistics.local import local_number
from isoscope.statistics.metric import metric


@metric(reads=("sample",), range=(0.0, 1.0), interval_about=THIS_N, title="Local top share", on_request=True)
def local_share(cloud: Cloud) -> Number:
    """The part of a neighbourhood's variance that lies along its own strongest direction, averaged over neighbourhoods.

    ``λ₁/Σλ`` of the 64 nearest neighbours in other documents, about their own mean, averaged over 256 points of the sample.

    Range 0 to 1; at least 1/63, however isotropic. Null: its mean over Gaussian clouds of exactly this mean and covariance, with as
    many points, of which those of a document share as much; whether the cloud differs from them, `local_share_excess` says. The note
    has the value of all points, and with dimensions shuffled.

    Razzhigaev et al. (2024).
    """
    return local_number(cloud, "share")
