"""The attention that the most attended position gets."""

from __future__ import annotations

from isoscope.core.number import POPULATION, Number
from isoscope.statistics.attention_cloud import AttentionCloud
from isoscope.statistics.metric import metric


@metric(reads=("attention",), range=(0.0, 1.0), interval_about=POPULATION, title="Attention to the most attended position", at_least=1)
def sink_mass_top(cloud: AttentionCloud) -> Number:
    """The part of a sequence's attention that goes to the position which gets most of it, averaged over sequences by their rows.

    The sink need not be the first token: in BERT it is [SEP]. All rows of a sequence count, whatever the policy.

    Range 0 to 1. Null: that of uniform rows, the mean of 1/open; in a single head the largest of many lies a little above.
    """
    value, low, high = cloud.of_sequences(lambda t: t["top"] / t["rows"], (0.0, 1.0))
    null = cloud.of_sequences(lambda t: t["share"] / t["rows"], (0.0, 1.0))[0]
    return Number(min(value, 1.0), n=cloud.n, d=cloud.d, low=low, high=high, null=null)
