"""The median probability in rows of attention."""

from __future__ import annotations

from isoscope.core.number import POPULATION, Number
from isoscope.statistics.attention_cloud import AttentionCloud
from isoscope.statistics.metric import metric


@metric(reads=("attention", "medians"), range=(0.0, 1.0), interval_about=POPULATION, title="Attention, median", at_least=1)
def attention_median(cloud: AttentionCloud) -> Number:
    """The median probability in a row of attention, averaged over rows.

    With an even number of positions it is the mean of the two in the middle. Range 0 to 1. Null: that of uniform rows, the mean of 1/open.

    Godey, de la Clergerie and Sagot (2024), Figure 9.
    """
    value, low, high = cloud.of_rows(lambda t: t["median"] / t["rows"], (0.0, 1.0))
    return Number(value, n=cloud.n, d=cloud.d, low=low, high=high, null=cloud.mean("share"))
