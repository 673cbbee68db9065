"""Claim 7: the side to which scores move is that of the draw."""

from __future__ import annotations

import pandas as pd

from isoscope.core.claim import NOTHING, Finding, Outcome, Verdict, claim
from isoscope.statistics.block_evidence import draws, is_own_block
from isoscope.statistics.onset import clopper_pearson


@claim(
    number=7,
    paper="godey2024",
    statement="To which side scores move is decided by the draw: both signs occur.",
    refuted_by="one sign in all of six draws or more",
    needs="the experiment on an untrained block, six draws or more: `isoscope untrained-block --draws 10 --out RUN`",
)
def score_sign_is_drawn(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The part of draws whose mean score at the largest bias is positive."""
    found = [(name, curve) for name, curve in draws(series, "block_score_mean").items() if is_own_block(name)]
    if not found:
        return NOTHING
    name, curve = found[0]
    ends = curve.sort_index(axis=1).iloc[:, -1].dropna()
    wins, n = int((ends > 0).sum()), len(ends)
    low, high = clopper_pearson(wins, n)
    word: Outcome = "holds" if 0 < wins < n else "fails" if not low <= 0.5 <= high else "undecided"
    said = f"The mean score at the largest bias is positive in {wins} of {n} draws."
    return Verdict(word, said, (Finding(name, word, wins / n, low, high, 0.5),), wins / n, low, high, 0.5)
