"""Claim 9: the entropy of attention falls in all layers."""

from __future__ import annotations

import pandas as pd

from isoscope.core.claim import Verdict, claim
from isoscope.statistics.deciding import Case
from isoscope.statistics.evidence import estimates
from isoscope.statistics.inference import greatest_of
from isoscope.statistics.suite_evidence import derived
from isoscope.statistics.verdicts import judged


@claim(
    number=9,
    paper="godey2024",
    statement="In training the entropy of attention falls in all layers.",
    refuted_by="a training with a layer whose entropy surely rises from the first step to the last",
    needs="three trainings or more with their dynamics: `isoscope sweep SUITE --taps hidden,attention --out RUN`",
)
def entropy_falls_in_all_layers(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The change of the entropy in the layer where it falls least."""
    found = derived(table, "attention_entropy_change")
    layers = {name: rows[rows["layer"].notna()] for name, rows in found.items()}
    cases = {name: Case(greatest_of(estimates(rows)), (0.0,)) for name, rows in layers.items() if len(rows)}
    return judged(cases, measure="the change of entropy in the layer where it falls least", above=False, unit="suite")
