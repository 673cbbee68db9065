"""Contract checks for extensions: what isoscope's own metrics, figures, claims, families and sources are held to.

    import isoscope
    from isoscope.testing import check_metric

    def test_my_metric():
        check_metric(isoscope.metrics.my_metric)

A check returns None if the contract holds, and raises `AssertionError` with a sentence that names what is broken.
"""

from __future__ import annotations

from isoscope.testing.clouds import attention_cloud, random_attention, random_clouds, random_stack
from isoscope.testing.extensions import check_claim, check_family, check_figure, check_source
from isoscope.testing.metrics import check_metric, check_profile, check_series

__all__ = [
    "attention_cloud",
    "check_claim",
    "check_family",
    "check_figure",
    "check_metric",
    "check_profile",
    "check_series",
    "check_source",
    "random_attention",
    "random_clouds",
    "random_stack",
]
