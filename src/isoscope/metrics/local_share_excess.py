"""The top share of neighbourhoods against a Gaussian."""

from __future__ import annotations

from isoscope.core.number import THIS_N, Number
from isoscope.statistics.cloud import Cloud
from isoscope.statistics.local import local_excess
from isoscope.statistics.metric import metric


@metric(reads=("sample",), range=(-1.0, 1.0), interval_about=THIS_N, title="Local top share, less a Gaussian's", on_request=True)
def local_share_excess(cloud: Cloud) -> Number:
    """How much more one direction dominates neighbourhoods than it would in a Gaussian of the same covariance: below 0 is more isotropic.

    ``local_share − its null``. That a cloud is locally isotropic says something only if the whole interval lies below 0: any
    Gaussian's neighbourhoods are more isotropic than the whole of it.

    Range −1 to 1. Null: 0, with the spread of one Gaussian cloud about the mean of others.

    Razzhigaev et al. (2024) without the control.
    """
    return local_excess(cloud, "share")
