"""The largest probability in rows of attention."""

from __future__ import annotations

from isoscope.core.number import POPULATION, Number
from isoscope.statistics.attention_cloud import AttentionCloud
from isoscope.statistics.metric import metric


@metric(reads=("attention",), range=(0.0, 1.0), interval_about=POPULATION, title="Attention, largest", at_least=1)
def attention_max(cloud: AttentionCloud) -> Number:
    """The largest probability in a row of attention, averaged over rows.

    Range 0 to 1. Null: that of uniform rows, the mean of 1/open.

    Godey, de la Clergerie and Sagot (2024), Figure 9.
    """
    value, low, high = cloud.of_rows(lambda t: t["maximum"] / t["rows"], (0.0, 1.0))
    return Number(value, n=cloud.n, d=cloud.d, low=low, high=high, null=cloud.mean("share"))
