"""In how many sequences there is a sink."""

from __future__ import annotations

from isoscope.core.number import POPULATION, Number
from isoscope.statistics.attention_cloud import AttentionCloud
from isoscope.statistics.metric import metric


@metric(reads=("attention",), range=(0.0, 1.0), interval_about=POPULATION, title="Sink rate", at_least=1)
def sink_rate(cloud: AttentionCloud) -> Number:
    """The part of the sequences in which one position gets more than 0.3 of all attention of this head.

    Averaged over heads it is the published sink rate, there of the first token; here the position is whichever gets most. All rows of a
    sequence count, whatever the policy.

    Range 0 to 1. Null 0, that of uniform rows of four positions or more.

    Gu et al. (2025), with their ε = 0.3.
    """
    value, low, high = cloud.of_sequences(lambda t: t["sinks"] / t["sequences"], (0.0, 1.0))
    return Number(value, n=cloud.n, d=cloud.d, low=low, high=high, null=0.0)
