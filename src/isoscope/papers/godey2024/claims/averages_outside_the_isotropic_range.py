"""Claim 10: average cosines of trained models lie far outside the isotropic range."""

from __future__ import annotations

import pandas as pd

from isoscope.core.claim import Verdict, claim
from isoscope.statistics.chance import one_pair
from isoscope.statistics.deciding import Case
from isoscope.statistics.evidence import cosines, estimates
from isoscope.statistics.inference import mean_of
from isoscope.statistics.verdicts import judged

FAR = 2.0


@claim(
    number=10,
    paper="godey2024",
    statement="Average cosines of trained models lie far outside the isotropic range: above twice the 95th percentile of one pair.",
    refuted_by="a trained Transformer whose cosine, averaged over its layers, lies surely below that",
    needs="the hidden states of three trained Transformers or more: `isoscope measure MODEL MODEL MODEL --out RUN`",
)
def averages_outside_the_isotropic_range(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The mean over layers beside the null of one pair, as published; beside that of an average every number is far outside."""
    cases = {name: Case(mean_of(estimates(rows)), (FAR * one_pair(int(rows["d"].max())),)) for name, rows in cosines(table, series).items()}
    return judged(cases, measure="the mean cosine over layers (twice the 95th percentile of one isotropic pair being the null)")
