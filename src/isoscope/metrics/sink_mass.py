"""The attention that the first position gets."""

from __future__ import annotations

from isoscope.core.number import POPULATION, Number
from isoscope.statistics.attention_cloud import AttentionCloud
from isoscope.statistics.metric import metric


@metric(reads=("attention",), range=(0.0, 1.0), interval_about=POPULATION, title="Attention to the first position", at_least=1)
def sink_mass(cloud: AttentionCloud) -> Number:
    """The part of a row's attention that goes to position 0, averaged over rows: near 1 in a head whose sink it is.

    Range 0 to 1. Null: uniform rows, so the mean of 1/open over all rows, where a row that cannot see position 0 counts as 0.

    Xiao et al. (2024); Gu et al. (2025).
    """
    value, low, high = cloud.of_rows(lambda t: t["first"] / t["rows"], (0.0, 1.0))
    return Number(value, n=cloud.n, d=cloud.d, low=low, high=high, null=cloud.mean("first_share"))
