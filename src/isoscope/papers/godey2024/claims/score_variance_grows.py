"""Claim 7: the variance of scores grows with the bias."""

from __future__ import annotations

import pandas as pd

from isoscope.core.claim import Verdict, claim
from isoscope.statistics.block_evidence import draws, growth
from isoscope.statistics.deciding import Case
from isoscope.statistics.verdicts import on_blocks


@claim(
    number=7,
    paper="godey2024",
    statement="The spread of the scores of an untrained block grows with the bias.",
    refuted_by="a standard deviation of scores that falls surely from the smallest bias to the largest",
    needs="the experiment on an untrained block: `isoscope untrained-block --out RUN`",
)
def score_variance_grows(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The standard deviation of all scores, largest bias less smallest, over draws."""
    cases = {name: Case(growth(curve), (0.0,)) for name, curve in draws(series, "block_score_sd").items()}
    return on_blocks(cases, measure="the growth of the standard deviation of scores")
