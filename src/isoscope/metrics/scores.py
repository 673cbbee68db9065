"""Scores before softmax: their spread, their spread within rows, their level, and their distribution as a curve."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from isoscope.core.number import POPULATION, Number
from isoscope.core.numerics import Floats
from isoscope.estimation.attention_cloud import AttentionCloud
from isoscope.estimation.declaration import Question
from isoscope.estimation.metric import Curve, metric, series
from isoscope.statistics.attention_statistics import EDGES

_score = partial(metric, reads=("attention",), interval_about=POPULATION, question=Question.ATTENTION_SHARPNESS, at_least=1)


@_score(range=(0.0, np.inf), title="Score spread")
def score_sd(cloud: AttentionCloud) -> Number:
    """The standard deviation of all scores before softmax, within rows and between them.

    Range 0 to ∞. Null 0, that of uniform rows. Only the part within rows (`score_row_sd`) reaches the attention.
    """
    return _number(cloud, lambda t: np.sqrt(np.maximum(t["score2"] / t["open"] - (t["score"] / t["open"]) ** 2, 0.0)), at_least=0.0)


@_score(range=(0.0, np.inf), title="Score spread within rows")
def score_row_sd(cloud: AttentionCloud) -> Number:
    """How far the scores of one row lie apart before softmax: only this makes attention sharp.

    ``√(mean over rows of the variance of the row's scores)``. The level that all scores of a row share cancels in softmax and is not in it.

    Range 0 to ∞. Null 0, that of uniform rows; while it is small, a row's entropy is ln(open) − sd²/2.
    """
    return _number(cloud, lambda t: np.sqrt(t["variance"] / t["rows"]), at_least=0.0)


@_score(range=(-np.inf, np.inf), title="Score offset")
def score_offset(cloud: AttentionCloud) -> Number:
    """The level of scores before softmax, which cancels in every row and makes no attention sharper.

    The mean over rows of the mean of the row's scores; about ⟨Q̄,K̄⟩ in logits. Range −∞ to ∞. Null 0.
    """
    return _number(cloud, lambda t: t["mean"] / t["rows"], at_least=-np.inf)


@series(reads=("scores",), title="Scores")
def score_histogram(cloud: AttentionCloud) -> Curve:
    """A histogram of a head's scores before softmax: bin centres, the part of the scores in each, and the bins' widths.

    Bins grow with the score, 16 to every doubling; empty ones outside the range of the scores are left out. A run counts eight rows of
    each long sequence, whatever the policy.

    Godey, de la Clergerie and Sagot (2024), Figure 7.
    """
    assert cloud.histogram is not None
    filled = np.flatnonzero(cloud.histogram)
    if not len(filled):
        return np.zeros(0), np.zeros(0), np.zeros(0)
    bins = slice(filled[0], filled[-1] + 1)
    counts = cloud.histogram[bins]
    return ((EDGES[1:] + EDGES[:-1]) / 2)[bins], counts / counts.sum(), np.diff(EDGES)[bins]


def _number(cloud: AttentionCloud, estimate: Callable[[dict[str, Floats]], Floats], *, at_least: float) -> Number:
    value, low, high = cloud.of_rows(estimate, (at_least, np.inf))
    return Number(value, n=cloud.n, d=cloud.d, low=low, high=high, null=0.0)
