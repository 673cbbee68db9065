"""Claim 2: MiT is isotropic."""

from __future__ import annotations

import pandas as pd

from isoscope.core.claim import Verdict, claim
from isoscope.statistics.deciding import Case
from isoscope.statistics.evidence import cosines, highest, thresholds
from isoscope.statistics.verdicts import judged_each


@claim(
    number=2,
    paper="godey2024",
    statement="MiT (SegFormer's encoder) is isotropic in every layer.",
    refuted_by="a MiT with a layer whose cosine lies surely above the threshold",
    needs="a MiT: `isoscope measure nvidia/mit-b0 --data IMAGES --out RUN`",
)
def mit_is_isotropic(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The greatest cosine over the layers, below all three thresholds."""
    found = cosines(table, series, ["vision"], named="MiT")
    cases = {name: Case(highest(rows), thresholds(rows)) for name, rows in found.items()}
    return judged_each(cases, ["MiT"], measure="the greatest cosine over the layers", above=False)
