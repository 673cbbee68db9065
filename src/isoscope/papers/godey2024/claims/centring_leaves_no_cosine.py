"""Claim 5: removing the mean leaves nearly no cosine."""

from __future__ import annotations

import pandas as pd

from isoscope.core.claim import Verdict, claim
from isoscope.statistics.deciding import Case
from isoscope.statistics.evidence import by_model, estimates, of_models, thresholds
from isoscope.statistics.inference import greatest_of
from isoscope.statistics.verdicts import judged


@claim(
    number=5,
    paper="godey2024",
    statement="Removing the mean leaves nearly perfect isotropy, by the cosine of what is left.",
    refuted_by="a trained Transformer with a layer whose cosine lies surely above the threshold after centring",
    needs="the hidden states, with a sample, of three trained Transformers or more: `isoscope measure MODEL MODEL MODEL --out RUN`",
)
def centring_leaves_no_cosine(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The greatest centred cosine over the layers of each model, below all three thresholds."""
    found = by_model(of_models(table, ["centred_cosine"]))
    cases = {name: Case(greatest_of(estimates(rows)), thresholds(rows)) for name, rows in found.items()}
    return judged(cases, measure="the greatest cosine over the layers after centring", above=False)
