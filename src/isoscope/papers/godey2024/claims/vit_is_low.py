"""Claim 2: ViT's cosine is low throughout."""

from __future__ import annotations

import pandas as pd

from isoscope.core.claim import Verdict, claim
from isoscope.statistics.deciding import Case
from isoscope.statistics.evidence import cosines, highest
from isoscope.statistics.verdicts import judged_each

LOW = 0.2


@claim(
    number=2,
    paper="godey2024",
    statement="ViT's cosine is low throughout: below 0.2 in every layer.",
    refuted_by="a ViT with a layer whose cosine lies surely above 0.2",
    needs="a ViT: `isoscope measure google/vit-base-patch16-224 --data IMAGES --out RUN`",
)
def vit_is_low(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The greatest cosine over the layers."""
    cases = {name: Case(highest(rows), (LOW,)) for name, rows in cosines(table, series, ["vision"], named="ViT").items()}
    return judged_each(cases, ["ViT"], measure="the greatest cosine over the layers", above=False)
