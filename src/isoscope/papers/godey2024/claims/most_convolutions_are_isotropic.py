"""Claim 3: convolutional networks are mostly isotropic."""

from __future__ import annotations

import pandas as pd

from isoscope.core.claim import Verdict, claim
from isoscope.statistics.deciding import Case, most
from isoscope.statistics.evidence import cosines, highest, thresholds
from isoscope.statistics.verdicts import both, judged

MEASURE = "the greatest cosine over the layers"


@claim(
    number=3,
    paper="godey2024",
    statement="Convolutional networks are mostly isotropic, as they are and beyond the cosine that rectified features have by themselves.",
    refuted_by="surely fewer than half of the networks staying below the threshold in every layer",
    needs="the hidden states of six convolutional networks or more: `isoscope measure RESNET CONVNEXT VAN … --data IMAGES --out RUN`",
)
def most_convolutions_are_isotropic(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """Below all three thresholds, by the cosine itself and by the cosine less the null of its site."""
    found = cosines(table, series, ["convolution"])
    readings = [{name: Case(highest(rows, less=less), thresholds(rows)) for name, rows in found.items()} for less in (None, "null")]
    plain, beyond = (judged(cases, most, measure=MEASURE, above=False, unit="network") for cases in readings)
    return both(plain, beyond, "whether the cosine of independent rectified features (1/π) is taken off")
