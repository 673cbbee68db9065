"""Rows of attention: their entropy, their largest, median and smallest probability, and their sinks."""

from __future__ import annotations

from functools import partial

import numpy as np

from isoscope.core.number import POPULATION, Number
from isoscope.estimation.metric import Question, metric
from isoscope.estimation.site_clouds import AttentionCloud

_entropy = partial(metric, reads=("attention",), interval_about=POPULATION, question=Question.ATTENTION_SHARPNESS, at_least=1)
_probability = partial(metric, range=(0.0, 1.0), interval_about=POPULATION, question=Question.ATTENTION_SHARPNESS, at_least=1)
_sink = partial(metric, reads=("attention",), range=(0.0, 1.0), interval_about=POPULATION, question=Question.ATTENTION_TARGET, at_least=1)


@_entropy(range=(0.0, np.inf), title="Attention entropy")
def attention_entropy(cloud: AttentionCloud) -> Number:
    """How evenly a row of attention looks at its positions, in nats: 0 if it looks at one, ln(open) if it looks at all equally.

    ``−Σ p ln p``, averaged over rows; computed as logsumexp(s) − Σ p·s.

    Range 0 to the logarithm of the longest row. Null: that of uniform rows, the mean of ln(open).

    Godey, de la Clergerie and Sagot (2024), Figure 15.
    """
    value, low, high = cloud.rows_estimate(lambda t: t["entropy"] / t["rows"], (0.0, np.inf))
    return Number(value, n=cloud.n, d=cloud.d, low=low, high=high, null=cloud.mean("log_open"))


@_entropy(range=(0.0, 1.0), title="Attention entropy, normalised")
def attention_entropy_normalised(cloud: AttentionCloud) -> Number:
    """The entropy of a row of attention as a fraction of its largest possible value, so that rows and models of any length compare.

    ``H / ln(open)``, averaged over rows that see more than one position; a row that sees one has no choice and is left out.

    Range 0 to 1. Null 1, that of uniform rows.
    """
    rows = round(cloud.total("many"))
    if not rows:
        return Number(np.nan, n=cloud.n, d=cloud.d, note="no row sees more than one position")
    value, low, high = cloud.rows_estimate(lambda t: t["normalised"] / t["many"], (0.0, 1.0))
    # The entropy of an even row may exceed ln(open) by rounding.
    return Number(min(value, 1.0), n=rows, d=cloud.d, low=low, high=high, null=1.0)


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
    value, low, high = cloud.rows_estimate(lambda t: t[quantity] / t["rows"], (0.0, 1.0))
    return Number(value, n=cloud.n, d=cloud.d, low=low, high=high, null=cloud.mean("share"))


def _mean_over_sequences(cloud: AttentionCloud, quantity: str) -> Number:
    value, low, high = cloud.sequences_estimate(lambda t: t[quantity] / t["sequences"], (0.0, 1.0))
    return Number(value, n=cloud.n, d=cloud.d, low=low, high=high)


@_sink(title="Attention to the first position")
def sink_mass(cloud: AttentionCloud) -> Number:
    """The part of a row's attention that goes to position 0, averaged over rows: near 1 in a head that uses it as a sink.

    Range 0 to 1. Null: uniform rows, so the mean of 1/open over all rows, where a row that cannot see position 0 counts as 0.

    Xiao et al. (2024); Gu et al. (2025).
    """
    value, low, high = cloud.rows_estimate(lambda t: t["first"] / t["rows"], (0.0, 1.0))
    return Number(value, n=cloud.n, d=cloud.d, low=low, high=high, null=cloud.mean("first_share"))


@_sink(title="Attention to the most attended position")
def sink_mass_top(cloud: AttentionCloud) -> Number:
    """The part of a sequence's attention that goes to the position which gets most of it, averaged over sequences by their rows.

    The sink need not be the first token: in BERT it is [SEP]. All rows of a sequence count, whatever the policy.

    Range 0 to 1. Null: that of uniform rows, the mean of 1/open; in a single head the largest of many lies a little above.
    """
    value, low, high = cloud.sequences_estimate(lambda t: t["top"] / t["rows"], (0.0, 1.0))
    null = cloud.sequences_estimate(lambda t: t["share"] / t["rows"], (0.0, 1.0))[0]
    return Number(min(value, 1.0), n=cloud.n, d=cloud.d, low=low, high=high, null=null)


@_sink(title="Sink rate")
def sink_rate(cloud: AttentionCloud) -> Number:
    """The part of the sequences in which one position gets more than 0.3 of all attention of this head.

    Averaged over heads it is the published sink rate, there of the first token; here the position is whichever gets most. All rows of a
    sequence count, whatever the policy.

    Range 0 to 1. Null 0, that of uniform rows of four positions or more.

    Gu et al. (2025), with their ε = 0.3.
    """
    value, low, high = cloud.sequences_estimate(lambda t: t["sinks"] / t["sequences"], (0.0, 1.0))
    return Number(value, n=cloud.n, d=cloud.d, low=low, high=high, null=0.0)
