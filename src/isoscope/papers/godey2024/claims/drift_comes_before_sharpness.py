"""Claim 9: queries and keys drift before attention sharpens."""

from __future__ import annotations

import pandas as pd

from isoscope.core.claim import Verdict, claim
from isoscope.statistics.deciding import Case
from isoscope.statistics.evidence import estimates
from isoscope.statistics.suite_evidence import derived
from isoscope.statistics.verdicts import judged


@claim(
    number=9,
    paper="godey2024",
    statement="Attention sharpens after its queries and keys have begun to drift: in most heads drift comes first.",
    refuted_by="a training in which surely more than half of the heads sharpen first",
    needs="three trainings or more with their dynamics: `isoscope sweep SUITE --taps hidden,attention --out RUN`",
)
def drift_comes_before_sharpness(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The part of heads whose drift begins before their sharpening, beside one half."""
    found = {name: rows[rows["seed"].isna()] for name, rows in derived(table, "precedence").items()}
    cases = {name: Case(estimates(rows)[0], (0.5,)) for name, rows in found.items() if len(rows)}
    return judged(cases, measure="the part of heads whose drift begins before their sharpening", unit="suite")
