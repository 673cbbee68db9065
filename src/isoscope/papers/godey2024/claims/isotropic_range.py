"""Statement 10: the average cosines of trained models lie far outside the isotropic range."""

from __future__ import annotations

import pandas as pd

from isoscope.core.claim import Section, Verdict
from isoscope.statistics.chance import one_pair
from isoscope.statistics.evidence import layer_cosines, row_estimates
from isoscope.statistics.inference import mean_of
from isoscope.statistics.verdicts import decide_models

section = Section(
    "godey2024", 10, "the hidden states of three trained Transformers or more: `isoscope measure MODEL MODEL MODEL --out RUN`"
)


@section.claim(
    statement="Average cosines of trained models lie far outside the isotropic range: above twice the 95th percentile of one pair.",
    refuted_by="a trained Transformer whose cosine, averaged over its layers, lies surely below that",
)
def averages_outside_the_isotropic_range(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The mean over layers against the null of one pair, as published. Against the null of an average, every number is far outside."""
    layers = layer_cosines(table, series)
    effects = {name: mean_of(row_estimates(rows)) for name, rows in layers.items()}
    thresholds = {name: (2 * one_pair(int(rows["d"].max())),) for name, rows in layers.items()}
    measure = "the mean cosine over layers (the null is twice the 95th percentile of one isotropic pair)"
    return decide_models(effects, thresholds, measure=measure)
