"""The entropy of rows of attention over the largest it could be."""

from __future__ import annotations

import numpy as np

from isoscope.core.number import POPULATION, Number
from isoscope.statistics.attention_cloud import AttentionCloud
from isoscope.statistics.metric import metric


@metric(reads=("attention",), range=(0.0, 1.0), interval_about=POPULATION, title="Attention entropy, normalised", at_least=1)
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
