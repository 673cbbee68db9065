"""Claim 15: the difference in top share between decoders and encoders comes from the causal mask."""

from __future__ import annotations

import pandas as pd

from isoscope.core.claim import Verdict, claim
from isoscope.statistics.suite_evidence import at_end
from isoscope.statistics.twins import by_mask


@claim(
    number=15,
    paper="razzhigaev2024",
    statement="What makes the top share of decoders higher than that of encoders is the causal mask, not the objective.",
    refuted_by="twins in which the objective alone moves the top share surely more than the mask alone",
    needs="three twins of two seeds or more: `isoscope train causal-text`, `masked-text` and `causal-masked-text`, then `isoscope sweep`",
)
def mask_makes_the_share(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """What the mask alone adds to the top share at the last step, the mean over blocks, less what the objective alone adds."""
    found = {name: rows[rows["layer"].gt(0)] for name, rows in at_end(table, "top_share", kind="hidden").items()}
    return by_mask(found, measure="the top share, the mean over blocks,")
