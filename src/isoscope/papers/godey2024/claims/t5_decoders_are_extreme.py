"""Claim 1: the decoders of ByT5 and T5 are extremely anisotropic."""

from __future__ import annotations

import pandas as pd

from isoscope.core.claim import Verdict, claim
from isoscope.statistics.deciding import Case
from isoscope.statistics.evidence import cosines, highest, is_named
from isoscope.statistics.verdicts import judged_each

EXTREME = 0.8
WANTED = ("ByT5", "T5")


@claim(
    number=1,
    paper="godey2024",
    statement="The decoders of ByT5 and T5 are extremely anisotropic: their cosine exceeds 0.8 somewhere.",
    refuted_by="a decoder of either whose cosine lies surely below 0.8 in every layer",
    needs="a ByT5 and a T5 with their decoders: `isoscope measure google/byt5-base google-t5/t5-base --out RUN`",
)
def t5_decoders_are_extreme(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The greatest cosine over the layers of the decoder."""
    named = {name: rows for name, rows in cosines(table, series).items() if any(is_named(name, one) for one in WANTED)}
    decoders = {name: rows[rows["stack"].eq("decoder")] for name, rows in named.items()}
    cases = {name: Case(highest(rows), (EXTREME,)) for name, rows in decoders.items() if len(rows)}
    return judged_each(cases, WANTED, measure="the greatest cosine over the decoder's layers")
