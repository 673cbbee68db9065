"""Attention sinks: the attention that the first or the most attended position gets, and how often there is a sink."""

from __future__ import annotations

from functools import partial

from isoscope.core.number import POPULATION, Number
from isoscope.estimation.attention_cloud import AttentionCloud
from isoscope.estimation.declaration import Question
from isoscope.estimation.metric import metric

_sink = partial(metric, reads=("attention",), range=(0.0, 1.0), interval_about=POPULATION, question=Question.ATTENTION_TARGET, at_least=1)


@_sink(title="Attention to the first position")
def sink_mass(cloud: AttentionCloud) -> Number:
    """The part of a row's attention that goes to position 0, averaged over rows: near 1 in a head whose sink it is.

    Range 0 to 1. Null: uniform rows, so the mean of 1/open over all rows, where a row that cannot see position 0 counts as 0.

    Xiao et al. (2024); Gu et al. (2025).
    """
    value, low, high = cloud.of_rows(lambda t: t["first"] / t["rows"], (0.0, 1.0))
    return Number(value, n=cloud.n, d=cloud.d, low=low, high=high, null=cloud.mean("first_share"))


@_sink(title="Attention to the most attended position")
def sink_mass_top(cloud: AttentionCloud) -> Number:
    """The part of a sequence's attention that goes to the position which gets most of it, averaged over sequences by their rows.

    The sink need not be the first token: in BERT it is [SEP]. All rows of a sequence count, whatever the policy.

    Range 0 to 1. Null: that of uniform rows, the mean of 1/open; in a single head the largest of many lies a little above.
    """
    value, low, high = cloud.of_sequences(lambda t: t["top"] / t["rows"], (0.0, 1.0))
    null = cloud.of_sequences(lambda t: t["share"] / t["rows"], (0.0, 1.0))[0]
    return Number(min(value, 1.0), n=cloud.n, d=cloud.d, low=low, high=high, null=null)


@_sink(title="Sink rate")
def sink_rate(cloud: AttentionCloud) -> Number:
    """The part of the sequences in which one position gets more than 0.3 of all attention of this head.

    Averaged over heads it is the published sink rate, there of the first token; here the position is whichever gets most. All rows of a
    sequence count, whatever the policy.

    Range 0 to 1. Null 0, that of uniform rows of four positions or more.

    Gu et al. (2025), with their ε = 0.3.
    """
    value, low, high = cloud.of_sequences(lambda t: t["sinks"] / t["sequences"], (0.0, 1.0))
    return Number(value, n=cloud.n, d=cloud.d, low=low, high=high, null=0.0)
