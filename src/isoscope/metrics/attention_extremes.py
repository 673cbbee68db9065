"""The largest, the median and the smallest probability in rows of attention, and in all rows of a sequence."""

from __future__ import annotations

from functools import partial

from isoscope.core.number import POPULATION, Number
from isoscope.estimation.attention_cloud import AttentionCloud
from isoscope.estimation.declaration import Question
from isoscope.estimation.metric import metric

_probability = partial(metric, range=(0.0, 1.0), interval_about=POPULATION, question=Question.ATTENTION_SHARPNESS, at_least=1)


@_probability(reads=("attention",), title="Attention, largest")
def attention_max(cloud: AttentionCloud) -> Number:
    """The largest probability in a row of attention, averaged over rows.

    Range 0 to 1. Null: that of uniform rows, the mean of 1/open.

    Godey, de la Clergerie and Sagot (2024), Figure 9.
    """
    return _mean_over_rows(cloud, "maximum")


@_probability(reads=("attention", "medians"), title="Attention, median")
def attention_median(cloud: AttentionCloud) -> Number:
    """The median probability in a row of attention, averaged over rows.

    With an even number of positions it is the mean of the two in the middle. Range 0 to 1. Null: that of uniform rows, the mean of 1/open.

    Godey, de la Clergerie and Sagot (2024), Figure 9.
    """
    return _mean_over_rows(cloud, "median")


@_probability(reads=("attention",), title="Attention, smallest")
def attention_min(cloud: AttentionCloud) -> Number:
    """The smallest probability in a row of attention, averaged over rows.

    Range 0 to 1. Null: that of uniform rows, the mean of 1/open.

    Godey, de la Clergerie and Sagot (2024), Figure 9.
    """
    return _mean_over_rows(cloud, "minimum")


@_probability(reads=("attention",), title="Attention, largest of a sequence")
def attention_sequence_max(cloud: AttentionCloud) -> Number:
    """The largest probability in any row of a sequence, averaged over sequences.

    All rows of a sequence count, whatever the policy. Range 0 to 1. Null: none; it depends on the lengths of all rows.

    Godey, de la Clergerie and Sagot (2024), Figure 10.
    """
    return _mean_over_sequences(cloud, "highest")


@_probability(reads=("attention",), title="Attention, smallest of a sequence")
def attention_sequence_min(cloud: AttentionCloud) -> Number:
    """The smallest probability in any row of a sequence, averaged over sequences.

    All rows of a sequence count, whatever the policy. Range 0 to 1. Null: none; it depends on the lengths of all rows.

    Godey, de la Clergerie and Sagot (2024), Figure 10.
    """
    return _mean_over_sequences(cloud, "lowest")


def _mean_over_rows(cloud: AttentionCloud, quantity: str) -> Number:
    value, low, high = cloud.of_rows(lambda t: t[quantity] / t["rows"], (0.0, 1.0))
    return Number(value, n=cloud.n, d=cloud.d, low=low, high=high, null=cloud.mean("share"))


def _mean_over_sequences(cloud: AttentionCloud, quantity: str) -> Number:
    value, low, high = cloud.of_sequences(lambda t: t[quantity] / t["sequences"], (0.0, 1.0))
    return Number(value, n=cloud.n, d=cloud.d, low=low, high=high)
