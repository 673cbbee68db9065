"""Claim 8: first layers end in the same direction, last layers in opposite ones."""

from __future__ import annotations

import pandas as pd

from isoscope.core.claim import Verdict, claim
from isoscope.statistics.deciding import Case
from isoscope.statistics.evidence import thirds
from isoscope.statistics.inference import least_of
from isoscope.statistics.suite_evidence import at_end, over_seeds
from isoscope.statistics.verdicts import judged


@claim(
    number=8,
    paper="godey2024",
    statement="Mean queries and keys end in the same direction in the first layers and in opposite directions in the last.",
    refuted_by="a model whose first third of layers surely ends opposite, or whose last third surely ends the same way",
    needs="the attention of three trained models or more: `isoscope measure MODEL MODEL MODEL --taps hidden,attention --out RUN`",
)
def first_same_last_opposite(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The mean cos(Q̄, K̄) of the first third of layers, and minus that of the last third: the weaker of the two."""
    cases = {}
    for name, rows in at_end(table, "qk_cosine").items():
        first, last = (over_seeds(part) for part in thirds(rows))
        cases[name] = Case(least_of([first, last.linear(-1)]), (0.0,))
    return judged(cases, measure="cos(Q̄, K̄) of the first third of layers, or minus that of the last, whichever is less,")
