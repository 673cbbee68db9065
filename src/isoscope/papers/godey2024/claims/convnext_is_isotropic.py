"""Claim 3: ConvNeXt is isotropic without batch norm."""

from __future__ import annotations

import pandas as pd

from isoscope.core.claim import Verdict, claim
from isoscope.statistics.deciding import Case
from isoscope.statistics.evidence import cosines, highest, thresholds
from isoscope.statistics.verdicts import judged_each


@claim(
    number=3,
    paper="godey2024",
    statement="ConvNeXt, which has no batch norm, is isotropic in every layer.",
    refuted_by="a ConvNeXt with a layer whose cosine lies surely above the threshold",
    needs="a ConvNeXt: `isoscope measure facebook/convnext-tiny-224 --data IMAGES --out RUN`",
)
def convnext_is_isotropic(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The greatest cosine over the layers, below all three thresholds."""
    found = cosines(table, series, ["convolution"], named="ConvNeXt")
    cases = {name: Case(highest(rows), thresholds(rows)) for name, rows in found.items()}
    return judged_each(cases, ["ConvNeXt"], measure="the greatest cosine over the layers", above=False)
