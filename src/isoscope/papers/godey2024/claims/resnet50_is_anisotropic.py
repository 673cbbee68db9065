"""Claim 3: ResNet-50 is the exception among convolutional networks."""

from __future__ import annotations

import pandas as pd

from isoscope.core.claim import Verdict, claim
from isoscope.statistics.deciding import Case
from isoscope.statistics.evidence import cosines, highest, thresholds
from isoscope.statistics.verdicts import both, judged_each


@claim(
    number=3,
    paper="godey2024",
    statement="ResNet-50 is the exception among convolutional networks: it has an anisotropic layer.",
    refuted_by="a ResNet-50 whose cosine lies surely below the threshold in every layer",
    needs="a ResNet-50: `isoscope measure microsoft/resnet-50 --data IMAGES --out RUN`",
)
def resnet50_is_anisotropic(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """Above all three thresholds, by the cosine itself and by the cosine less the null of its site."""
    found = cosines(table, series, ["convolution"], named="ResNet-50")
    readings = [{name: Case(highest(rows, less=less), thresholds(rows)) for name, rows in found.items()} for less in (None, "null")]
    plain, beyond = (judged_each(cases, ["ResNet-50"], measure="the greatest cosine over the layers") for cases in readings)
    return both(plain, beyond, "whether the cosine of independent rectified features (1/π) is taken off")
