"""Claim 4: in most convolutional networks drift and cosine do not go together."""

from __future__ import annotations

import pandas as pd

from isoscope.core.claim import Verdict, claim
from isoscope.statistics.deciding import most
from isoscope.statistics.drift_claims import left_out_by_layers, rank_cases
from isoscope.statistics.equal_n import leaving_out
from isoscope.statistics.verdicts import judged


@claim(
    number=4,
    paper="godey2024",
    statement="In most convolutional networks drift and cosine do not go together: ρ is below 0.3.",
    refuted_by="ρ, by differences between layers, surely above 0.3 in surely more than half of them",
    needs="six convolutional networks with twelve blocks or more: `isoscope measure RESNET CONVNEXT VAN … --data IMAGES --out RUN`",
)
def drift_leaves_out_convolutions(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """Spearman's ρ of first differences in each of them."""
    cases = rank_cases(table, ["convolution"])
    measure = "Spearman's ρ between the differences of drift ratio and cosine"
    return leaving_out(judged(cases, most, measure=measure, above=False, unit="network"), left_out_by_layers(table, ["convolution"]))
