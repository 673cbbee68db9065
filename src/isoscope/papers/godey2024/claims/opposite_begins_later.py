"""Claim 8: heads that end in opposite directions begin to align later."""

from __future__ import annotations

import pandas as pd

from isoscope.core.claim import Verdict, claim
from isoscope.statistics.deciding import Case
from isoscope.statistics.equal_n import leaving_out, steps_of_different_n, without
from isoscope.statistics.evidence import estimates
from isoscope.statistics.suite_evidence import derived
from isoscope.statistics.verdicts import judged


@claim(
    number=8,
    paper="godey2024",
    statement="Heads that end in opposite directions begin to align later than heads that end in the same.",
    refuted_by="a training in which they begin surely earlier",
    needs="three trainings of two seeds or more with heads of both kinds: `isoscope sweep SUITE --taps hidden,attention --out RUN`",
)
def opposite_begins_later(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """How often a head that ends opposite begins after one that ends the same way, over seeds, beside one half."""
    found = derived(table, "opposite_later")
    left = {name: said for name, said in steps_of_different_n(table, "qk_cosine", "attention").items() if name in found}
    cases = {name: Case(estimates(rows)[0], (0.5,)) for name, rows in without(found, left).items()}
    return leaving_out(judged(cases, measure="how often an opposite head begins after one of the same direction", unit="suite"), left)
