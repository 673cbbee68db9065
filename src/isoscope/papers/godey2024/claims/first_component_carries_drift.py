"""Claim 8: the first component of the common basis carries the drift."""

from __future__ import annotations

import pandas as pd

from isoscope.core.claim import Verdict, claim
from isoscope.statistics.deciding import Case
from isoscope.statistics.suite_evidence import over_seeds, parts_along
from isoscope.statistics.verdicts import judged

HALF = 0.5


@claim(
    number=8,
    paper="godey2024",
    statement="The first component of the basis that all steps share carries the drift of queries and keys.",
    refuted_by="a training whose first component carries surely less than half of the mean vectors' squared length at the end",
    needs="three trainings or more with their dynamics: `isoscope sweep SUITE --taps hidden,attention --out RUN`",
)
def first_component_carries_drift(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The part of ‖Q̄‖² and ‖K̄‖² along the first component of the union of queries and keys, at the last step."""
    found = parts_along(table, series, "union", ["query", "key"], 1)
    cases = {name: Case(over_seeds(rows), (HALF,)) for name, rows in found.items()}
    return judged(cases, measure="the part of the drift along the first component", unit="suite")
