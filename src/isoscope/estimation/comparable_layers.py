"""The cosine by which the layers of one model can be compared, whether or not they have the same n."""

from __future__ import annotations

import pandas as pd

from isoscope.core.model_groups import UNIT
from isoscope.core.number import SAME_N, THIS_N

ALL_PAIRS, BETWEEN = "mean_cosine", "between_cosine"


def comparable_over_layers(rows: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, str]]:
    """Rows of layers with one cosine each, under the name of that over all pairs; and by model why its layers cannot be compared.

    It is that over all pairs, as published. Where the layers have different n, as in a network that pools, it is that between documents,
    which does not depend on n; a model without it keeps what it has and is named.
    """
    unit = rows.groupby([*UNIT, "policy"], dropna=False, sort=False).ngroup()
    plain, between = rows["metric"].eq(ALL_PAIRS), rows["metric"].eq(BETWEEN)
    own = plain & rows["interval_about"].eq(THIS_N) & rows["n"].notna()
    ends = rows[own].groupby(unit[own])["n"].agg(["min", "max"])
    ends = ends[ends["max"] > SAME_N * ends["min"]]
    differs, known = unit.isin(ends.index), unit.isin(set(unit[between]))
    swapped = rows[between & differs].assign(metric=ALL_PAIRS)
    left = {}
    for name, at in zip(rows.loc[plain & differs & ~known, "model"], unit[plain & differs & ~known], strict=True):
        low, high = ends.loc[at]
        left[str(name)] = f"n differs between layers ({low:,} to {high:,}) and {ALL_PAIRS} depends on n; measure {BETWEEN} too"
    return pd.concat([rows[~between & ~(plain & differs & known)], swapped]) if len(swapped) else rows[~between], left
