"""Claim 8: queries and keys align in every seed."""

from __future__ import annotations

import pandas as pd

from isoscope.core.claim import Finding, Outcome, Verdict, claim
from isoscope.statistics.chance import LEVEL
from isoscope.statistics.onset import clopper_pearson, sign_test
from isoscope.statistics.suite_evidence import derived
from isoscope.statistics.verdicts import over


@claim(
    number=8,
    paper="godey2024",
    statement="That mean queries and keys align is the same over seeds.",
    refuted_by="a training in which T = mean cos²(Q̄, K̄) falls in five of five seeds",
    needs="three trainings of five seeds or more: `isoscope sweep SUITE --taps hidden,attention --out RUN`",
)
def alignment_is_the_same_over_seeds(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The part of seeds in which T, the mean over layers, is higher at the end than at the start: sign test, five of five at least."""
    findings = []
    for name, rows in derived(table, "alignment").items():
        first, last = (rows[rows["step"].eq(step)] for step in (rows["step"].min(), rows["step"].max()))
        before, after = (part["value"].groupby(part["seed"].fillna(-1)).mean() for part in (first, last))
        moved = (after - before).dropna()
        wins, n = int((moved > 0).sum()), len(moved)
        rose, fell = (sign_test(count, n, one_sided=True) < LEVEL for count in (wins, n - wins))
        word: Outcome = "holds" if rose else "fails" if fell else "undecided"
        low, high = clopper_pearson(wins, n)
        more = "" if n >= 5 else ", five at least are needed"
        findings.append(Finding(name, word, wins / n, low, high, 0.5, f"up in {wins} of {n} seeds{more}"))
    return over(findings, measure="alignment rises in the seeds, by a sign test,")
