"""Statement 10: the average cosines of trained models lie far outside the isotropic range."""

from __future__ import annotations

import pandas as pd

from isoscope.claims.claim import Section, Verdict
from isoscope.claims.evidence import layer_cosines, row_estimates
from isoscope.claims.verdicts import decide_models
from isoscope.estimation.inference import mean_of
from isoscope.estimation.isotropic_quantiles import one_pair

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
