"""Claim 6: the norm fixed point is of the order of a trained BERT's norms."""

from __future__ import annotations

import math

import pandas as pd

from isoscope.core.block import TRAINED
from isoscope.core.claim import NOTHING, Verdict, claim
from isoscope.statistics.block_evidence import block_rows
from isoscope.statistics.deciding import Case, shifted, weakest
from isoscope.statistics.evidence import estimates
from isoscope.statistics.onset import Estimate
from isoscope.statistics.verdicts import on_blocks

FACTOR = 3.0


@claim(
    number=6,
    paper="godey2024",
    statement="The norm fixed point N* is of the order of the norms of a trained BERT: within a factor of three of their median.",
    refuted_by="an N* that is surely more than three times as long, or as short",
    needs="an untrained block beside a trained model: `isoscope untrained-block --trained MODEL --out RUN`",
)
def norm_fixed_point_is_like_trained_norms(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """ln 3 less the distance between ln N* and ln of the median over layers of the trained mean norm."""
    norms = table.loc[table["metric"].eq(TRAINED), "value"].dropna()
    if norms.empty:
        return NOTHING
    middle, cases = float(norms.median()), {}
    for name, rows in block_rows(table, "norm_fixed_point").items():
        one = estimates(rows)[0]
        if one.value > 0 and one.low > 0:
            value, low, high = (math.log(x / middle) for x in (one.value, one.low, one.high))
            ratio = Estimate(value, low, high)
            room = math.log(FACTOR)
            cases[name] = Case(weakest([shifted(ratio, room), shifted(ratio, room, scale=-1)]), (0.0,))
    return on_blocks(cases, measure=f"ln 3 less the distance of ln N* from ln {middle:.3g}, the median trained norm,")
