"""The IsoScore of neighbourhoods."""

from __future__ import annotations

from isoscope.core.number import THIS_N, Number
from isoscope.statistics.cloud import Cloud
from isoscope.statistics.local import local_number
from isoscope.statistics.metric import metric


@metric(reads=("sample",), range=(0.0, 1.0), interval_about=THIS_N, title="Local IsoScore", on_request=True)
def local_isoscore(cloud: Cloud) -> Number:
    """How evenly a neighbourhood's variance is spread over all d directions, averaged over neighbourhoods.

    ``(PR − 1)/(d − 1)`` of the 64 nearest neighbours in other documents, about their own mean, averaged over 256 points of the sample.

    Range 0 to 1; at most 62/(d − 1) where that is less, since 64 points span 63 directions. Null: its mean over Gaussian clouds of
    exactly this mean and covariance, with as many points; whether the cloud differs from them, `local_isoscore_excess` says. The note has
    the value of all points, and with dimensions shuffled.

    Rudman et al. (2022), of neighbourhoods as in Razzhigaev et al. (2024).
    """
    return local_number(cloud, "isoscore")
