"""Claim 6: an untrained block's output is slightly more anisotropic than its input."""

from __future__ import annotations

import pandas as pd

from isoscope.core.claim import Verdict, claim
from isoscope.statistics.block_evidence import block_rows
from isoscope.statistics.deciding import Case
from isoscope.statistics.evidence import estimates
from isoscope.statistics.verdicts import on_blocks


@claim(
    number=6,
    paper="godey2024",
    statement="The output of an untrained block has a higher cosine than its input at every norm of the bias.",
    refuted_by="a least gain over the norms that lies surely below 0",
    needs="the experiment on an untrained block: `isoscope block --out RUN`",
)
def block_raises_cosine(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The least of output minus input cosine over the grid of norms, over draws."""
    found = block_rows(table, "least_cosine_gain")
    cases = {name: Case(estimates(rows)[0], (0.0,)) for name, rows in found.items() if rows["value"].notna().all()}
    return on_blocks(cases, measure="the least gain in cosine over all norms of the bias")
