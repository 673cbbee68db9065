"""The entropy of rows of attention, in nats and as a part of the largest it could be."""

from __future__ import annotations

from functools import partial

import numpy as np

from isoscope.core.number import POPULATION, Number
from isoscope.estimation.attention_cloud import AttentionCloud
from isoscope.estimation.declaration import Question
from isoscope.estimation.metric import metric

_entropy = partial(metric, reads=("attention",), interval_about=POPULATION, question=Question.ATTENTION_SHARPNESS, at_least=1)


@_entropy(range=(0.0, np.inf), title="Attention entropy")
def attention_entropy(cloud: AttentionCloud) -> Number:
    """How evenly a row of attention looks at its positions, in nats: 0 if it looks at one, ln(open) if it looks at all alike.

    ``−Σ p ln p``, averaged over rows; computed as logsumexp(s) − Σ p·s.

    Range 0 to the logarithm of the longest row. Null: that of uniform rows, the mean of ln(open).

    Godey, de la Clergerie and Sagot (2024), Figure 15.
    """
    value, low, high = cloud.of_rows(lambda t: t["entropy"] / t["rows"], (0.0, np.inf))
    return Number(value, n=cloud.n, d=cloud.d, low=low, high=high, null=cloud.mean("log_open"))


@_entropy(range=(0.0, 1.0), title="Attention entropy, normalised")
def attention_entropy_normalised(cloud: AttentionCloud) -> Number:
    """The entropy of a row of attention as a part of the largest it could be, so that rows and models of any length compare.

    ``H / ln(open)``, averaged over rows that see more than one position; a row that sees one has no choice and is left out.

    Range 0 to 1. Null 1, that of uniform rows.
    """
    rows = round(cloud.total("many"))
    if not rows:
        return Number(np.nan, n=cloud.n, d=cloud.d, note="no row sees more than one position")
    value, low, high = cloud.of_rows(lambda t: t["normalised"] / t["many"], (0.0, 1.0))
    return Number(min(value, 1.0), n=rows, d=cloud.d, low=low, high=high, null=1.0)
