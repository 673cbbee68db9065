"""Claim 7: scores move away from zero as the bias grows."""

from __future__ import annotations

import pandas as pd

from isoscope.core.claim import Verdict, claim
from isoscope.statistics.block_evidence import draws, growth
from isoscope.statistics.deciding import Case
from isoscope.statistics.verdicts import on_blocks


@claim(
    number=7,
    paper="godey2024",
    statement="The scores of an untrained block move away from zero as the bias grows.",
    refuted_by="mean scores of heads that come surely nearer to zero from the smallest bias to the largest",
    needs="the experiment on an untrained block: `isoscope untrained-block --out RUN`",
)
def scores_leave_zero(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The size of a head's mean score, largest bias less smallest, over draws."""
    cases = {name: Case(growth(curve), (0.0,)) for name, curve in draws(series, "block_score_offset").items()}
    return on_blocks(cases, measure="the growth of the size of a head's mean score")
