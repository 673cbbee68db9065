"""The entropy of rows of attention."""

from __future__ import annotations

import numpy as np

from isoscope.core.number import POPULATION, Number
from isoscope.statistics.attention_cloud import AttentionCloud
from isoscope.statistics.metric import metric


@metric(reads=("attention",), range=(0.0, np.inf), interval_about=POPULATION, title="Attention entropy", at_least=1)
def attention_entropy(cloud: AttentionCloud) -> Number:
    """How evenly a row of attention looks at its positions, in nats: 0 where it looks at one, ln(open) where it looks at all alike.

    ``−Σ p ln p``, averaged over rows; computed as logsumexp(s) − Σ p·s.

    Range 0 to the logarithm of the longest row. Null: that of uniform rows, the mean of ln(open).

    Godey, de la Clergerie and Sagot (2024), Figure 15.
    """
    value, low, high = cloud.of_rows(lambda t: t["entropy"] / t["rows"], (0.0, np.inf))
    return Number(value, n=cloud.n, d=cloud.d, low=low, high=high, null=cloud.mean("log_open"))
