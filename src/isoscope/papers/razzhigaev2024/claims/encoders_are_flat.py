"""Claim 11: the top share of encoders is flat over the layers."""

from __future__ import annotations

import pandas as pd

from isoscope.core.claim import Verdict, claim
from isoscope.statistics.deciding import Case, shifted, strongest
from isoscope.statistics.equal_n import leaving_out
from isoscope.statistics.shape_claims import FLAT, also_without_sinks, blocks_of_different_n, profiles
from isoscope.statistics.verdicts import judged


@claim(
    number=11,
    paper="razzhigaev2024",
    statement="The top share of encoders is flat over the layers, with and without sink tokens and in both forms of the share.",
    refuted_by="an encoder whose largest less smallest share lies surely above 0.1 under one token policy or in one form",
    needs="three encoders of six blocks or more: `isoscope measure BERT ROBERTA MINILM --split-body sink --out RUN`",
)
def encoders_are_flat(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The greatest range over token policies and both forms of the share, beside 0.1."""
    found = profiles(table, ("share_range", "share_range_linear"), "encoder")
    cases = {}
    for name, (rows, parts) in found.items():
        turned = also_without_sinks(shifted(strongest(parts), 0.0, scale=-1), rows, -FLAT)
        cases[name] = Case(shifted(turned, 0.0, scale=-1), (FLAT,))
    measure = "the range of the share over the blocks, the greatest over token policies and forms,"
    return leaving_out(judged(cases, measure=measure, above=False, unit="encoder"), blocks_of_different_n(table, "encoder"))
