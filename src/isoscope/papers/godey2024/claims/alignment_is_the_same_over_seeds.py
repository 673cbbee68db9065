"""Claim 8: queries and keys align in every seed."""

from __future__ import annotations

import numpy as np
import pandas as pd

from isoscope.core.claim import Finding, Outcome, Verdict, claim
from isoscope.statistics.chance import LEVEL
from isoscope.statistics.equal_n import leaving_out, steps_of_different_n, without
from isoscope.statistics.inference import clopper_pearson, hochberg, sign_test
from isoscope.statistics.suite_evidence import derived
from isoscope.statistics.verdicts import over


@claim(
    number=8,
    paper="godey2024",
    statement="That mean queries and keys align is the same over seeds.",
    refuted_by="a training in which T = mean cos²(Q̄, K̄) falls in so many seeds that chance would not do it in any of the trainings",
    needs="three trainings of five seeds or more: `isoscope sweep SUITE --taps hidden,attention --out RUN`",
)
def alignment_is_the_same_over_seeds(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The part of seeds in which T, the mean over layers, is higher at the end than at the start: sign test, five of five at least."""
    moves, left = {}, steps_of_different_n(table, "qk_cosine", "attention")
    for name, rows in without(derived(table, "alignment"), left).items():
        first, last = (rows[rows["step"].eq(step)] for step in (rows["step"].min(), rows["step"].max()))
        before, after = (part["value"].groupby(part["seed"].fillna(-1)).mean() for part in (first, last))
        moves[name] = (after - before).dropna()
    down = [sign_test(int((moved <= 0).sum()), len(moved), one_sided=True) for moved in moves.values()]
    findings = []
    # One training that falls refutes it, so chance has a try in each of them; for it to hold, all of them must rise.
    for (name, moved), p in zip(moves.items(), hochberg(np.array(down)), strict=True):
        wins, n = int((moved > 0).sum()), len(moved)
        rose = sign_test(wins, n, one_sided=True) < LEVEL
        word: Outcome = "holds" if rose else "fails" if p < LEVEL else "undecided"
        low, high = clopper_pearson(wins, n)
        more = "" if n >= 5 else ", five at least are needed"
        findings.append(Finding(name, word, wins / n, low, high, 0.5, f"up in {wins} of {n} seeds{more}"))
    return leaving_out(over(findings, measure="alignment rises in the seeds, by a sign test,"), left)
