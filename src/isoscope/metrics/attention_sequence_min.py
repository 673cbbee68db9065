"""The smallest probability in the attention of a whole sequence."""

from __future__ import annotations

from isoscope.core.number import POPULATION, Number
from isoscope.statistics.attention_cloud import AttentionCloud
from isoscope.statistics.metric import metric


@metric(reads=("attention",), range=(0.0, 1.0), interval_about=POPULATION, title="Attention, smallest of a sequence", at_least=1)
def attention_sequence_min(cloud: AttentionCloud) -> Number:
    """The smallest probability in any row of a sequence, averaged over sequences.

    All rows of a sequence count, whatever the policy. Range 0 to 1. Null: none; it hangs on the lengths of all rows.

    Godey, de la Clergerie and Sagot (2024), Figure 10.
    """
    value, low, high = cloud.of_sequences(lambda t: t["lowest"] / t["sequences"], (0.0, 1.0))
    return Number(value, n=cloud.n, d=cloud.d, low=low, high=high)
