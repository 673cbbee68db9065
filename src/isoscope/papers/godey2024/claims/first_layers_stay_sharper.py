"""Claim 9: the first layers stay sharper than the last."""

from __future__ import annotations

import pandas as pd

from isoscope.core.claim import Verdict, claim
from isoscope.statistics.deciding import Case
from isoscope.statistics.suite_evidence import at_end, third_gap
from isoscope.statistics.verdicts import judged


@claim(
    number=9,
    paper="godey2024",
    statement="Attention stays sharper in the first layers than in the last.",
    refuted_by="a model whose first third of layers ends with surely more entropy than its last third",
    needs="the attention of three trained models or more: `isoscope measure MODEL MODEL MODEL --taps hidden,attention --out RUN`",
)
def first_layers_stay_sharper(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The mean entropy of the first third of layers less that of the last, in nats."""
    cases = {name: Case(third_gap(rows), (0.0,)) for name, rows in at_end(table, "attention_entropy").items()}
    return judged(cases, measure="the entropy of the first third of layers less that of the last", above=False)
