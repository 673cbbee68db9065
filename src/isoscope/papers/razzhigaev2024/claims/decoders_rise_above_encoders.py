"""Claim 11: decoders are more bell-shaped than encoders."""

from __future__ import annotations

import pandas as pd

from isoscope.core.claim import Verdict, claim
from isoscope.statistics.inference import welch
from isoscope.statistics.shape_claims import profiles
from isoscope.statistics.verdicts import at_equal_n, compared


@claim(
    number=11,
    paper="razzhigaev2024",
    statement="Decoders are more bell-shaped than encoders.",
    refuted_by="encoders with a surely higher B than decoders",
    needs="four decoders and four encoders of six blocks or more: `isoscope measure MODEL … --out RUN`",
)
def decoders_rise_above_encoders(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """B under all tokens: exact permutation over models."""
    found = [
        {name: rows[rows["policy"].eq("all")] for name, (rows, _) in profiles(table, ("bell",), stack).items()}
        for stack in ("decoder", "encoder")
    ]
    decoders, encoders = ({name: float(rows["value"].mean()) for name, rows in own.items()} for own in found)
    effect = welch(list(decoders.values()), list(encoders.values()))
    verdict = compared(decoders, encoders, effect, measure="B under all tokens", names=("decoders", "encoders"))
    return at_equal_n(verdict, pd.concat([rows for own in found for rows in own.values()])) if verdict.findings else verdict
