"""Claim 8: the size of the product of mean query and mean key grows."""

from __future__ import annotations

import pandas as pd

from isoscope.core.claim import Verdict, claim
from isoscope.statistics.deciding import Case
from isoscope.statistics.suite_evidence import ends, over_seeds
from isoscope.statistics.verdicts import judged


@claim(
    number=8,
    paper="godey2024",
    statement="|⟨Q̄, K̄⟩| grows in training.",
    refuted_by="a training in which its mean over heads surely falls from the first step to the last",
    needs="three trainings or more: `isoscope sweep SUITE --taps hidden,attention --out RUN`",
)
def dot_product_grows(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The mean over heads of |⟨Q̄, K̄⟩|, last step less first, in logit units."""
    found = ends(table, "qk_dot", kind="attention", size=True)
    cases = {name: Case(over_seeds(rows, rows["last"] - rows["first"]), (0.0,)) for name, rows in found.items()}
    return judged(cases, measure="the change of |⟨Q̄, K̄⟩|", unit="suite")
