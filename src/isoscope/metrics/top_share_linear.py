"""The share of the strongest singular value."""

from __future__ import annotations

from isoscope.core.number import THIS_N, Number
from isoscope.statistics.cloud import Cloud
from isoscope.statistics.metric import metric
from isoscope.statistics.spectrum import top_part_linear


@metric(reads=("second",), wants=("sample",), range=(0.0, 1.0), interval_about=THIS_N, title="Top share (linear)")
def top_share_linear(cloud: Cloud) -> Number:
    """The strongest singular value's part of the sum of singular values of the centred cloud.

    ``σ₁/Σσ`` with σ = √λ. Some summaries of paper 2 give this form; `top_share` is the authors' own.

    Range 1/d to 1. Null: its mean over isotropic Gaussian clouds of this n and d.

    >>> round(top_share_linear([[10.0, 0, 0], [-10, 0, 0], [0, 2, 0], [0, -2, 0], [0, 0, 1], [0, 0, -1]]), 3)
    0.769
    """
    return cloud.spectral(top_part_linear, bounds=(0.0, 1.0))
