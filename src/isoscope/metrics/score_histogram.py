"""The distribution of scores, as a curve."""

from __future__ import annotations

import numpy as np

from isoscope.statistics.attention import EDGES
from isoscope.statistics.attention_cloud import AttentionCloud
from isoscope.statistics.metric import Curve, series


@series(reads=("scores",), title="Scores")
def score_histogram(cloud: AttentionCloud) -> Curve:
    """A histogram of a head's scores before softmax: bin centres, the part of the scores in each, and the bins' widths.

    Bins grow with the score, 16 to every doubling; empty ones outside the range of the scores are left out. In a run, of eight rows of
    each long sequence, whatever the policy.

    Godey, de la Clergerie and Sagot (2024), Figure 7.
    """
    assert cloud.histogram is not None
    held = np.flatnonzero(cloud.histogram)
    if not len(held):
        return np.zeros(0), np.zeros(0), np.zeros(0)
    kept = slice(held[0], held[-1] + 1)
    counts = cloud.histogram[kept]
    return ((EDGES[1:] + EDGES[:-1]) / 2)[kept], counts / counts.sum(), np.diff(EDGES)[kept]
