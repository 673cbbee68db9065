"""Claim 3: ResNet-50 becomes more isotropic with depth."""

from __future__ import annotations

import pandas as pd

from isoscope.core.claim import Verdict, claim
from isoscope.statistics.deciding import Case
from isoscope.statistics.equal_n import layers_of_different_n, leaving_out, without
from isoscope.statistics.evidence import cosines, estimates, thirds
from isoscope.statistics.inference import difference_of, mean_of
from isoscope.statistics.verdicts import judged_each

FALL = -0.1


@claim(
    number=3,
    paper="godey2024",
    statement="ResNet-50 becomes more isotropic with depth: its last third of layers lies at least 0.1 below its first.",
    refuted_by="a ResNet-50 whose last third of layers lies surely less than 0.1 below its first, or above it",
    needs="a ResNet-50: `isoscope measure microsoft/resnet-50 --data IMAGES --out RUN`",
)
def resnet50_falls_with_depth(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The mean cosine of the last third of layers less that of the first."""
    found = cosines(table, series, ["convolution"], named="ResNet-50")
    cases, left = {}, layers_of_different_n(found)
    for name, rows in without(found, left).items():
        first, last = (mean_of(estimates(part)) for part in thirds(rows))
        cases[name] = Case(difference_of(last, first), (FALL,))
    measure = "the cosine of the last third of layers less that of the first"
    return leaving_out(judged_each(cases, ["ResNet-50"], measure=measure, above=False), left)
