"""Claim 15: the difference in shape between decoders and encoders comes from the causal mask."""

from __future__ import annotations

import pandas as pd

from isoscope.core.claim import Verdict, claim
from isoscope.statistics.suite_evidence import at_end
from isoscope.statistics.twins import by_mask


@claim(
    number=15,
    paper="razzhigaev2024",
    statement="What makes decoders more bell-shaped than encoders is the causal mask, not the objective.",
    refuted_by="twins in which the objective alone moves B surely more than the mask alone",
    needs="three twins of two seeds or more: `isoscope train causal-text`, `masked-text` and `causal-masked-text`, then `isoscope sweep`",
)
def mask_makes_the_bell(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """What the mask alone adds to B at the last step, less what the objective alone adds, over seeds."""
    return by_mask(at_end(table, "bell", kind="hidden"), measure="B")
