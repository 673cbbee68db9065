"""Claim 8: the components of queries describe the drift of keys, and the other way round."""

from __future__ import annotations

import pandas as pd

from isoscope.core.claim import Verdict, claim
from isoscope.statistics.deciding import Case
from isoscope.statistics.inference import least_of
from isoscope.statistics.suite_evidence import over_seeds, parts_along
from isoscope.statistics.verdicts import judged

HALF, FIRST = 0.5, 2


@claim(
    number=8,
    paper="godey2024",
    statement="The first two components of queries alone describe the drift of keys, and those of keys that of queries.",
    refuted_by="a training in which they carry surely less than half of the other's squared mean at the end",
    needs="three trainings or more with their dynamics: `isoscope sweep SUITE --taps hidden,attention --out RUN`",
)
def components_describe_each_other(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The part of ‖K̄‖² in the components of queries and of ‖Q̄‖² in those of keys, at the last step; the weaker of the two."""
    keys, queries = parts_along(table, series, "query", ["key"], FIRST), parts_along(table, series, "key", ["query"], FIRST)
    cases = {name: Case(least_of([over_seeds(side[name]) for side in (keys, queries)]), (HALF,)) for name in keys if name in queries}
    return judged(cases, measure="the part of one's drift in the other's components, whichever is less,", unit="suite")
