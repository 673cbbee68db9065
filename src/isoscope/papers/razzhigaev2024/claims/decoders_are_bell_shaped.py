"""Claim 11: the top share of decoders is bell-shaped over the layers."""

from __future__ import annotations

import pandas as pd

from isoscope.core.claim import Verdict, claim
from isoscope.statistics.deciding import Case, weakest
from isoscope.statistics.equal_n import leaving_out
from isoscope.statistics.shape_claims import HEIGHT, also_without_sinks, blocks_of_different_n, profiles
from isoscope.statistics.verdicts import judged


@claim(
    number=11,
    paper="razzhigaev2024",
    statement="The top share of decoders is bell-shaped over the layers, with and without sink tokens and in both forms of the share.",
    refuted_by="a decoder whose B lies surely below 0.05 under one token policy or in one form",
    needs="three decoders of six blocks or more: `isoscope measure GPT2 OPT SMOLLM --split-body sink --out RUN`",
)
def decoders_are_bell_shaped(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The least B over token policies and both forms of the share, beside 0.05."""
    found = profiles(table, ("bell", "bell_linear"), "decoder")
    cases = {name: Case(also_without_sinks(weakest(parts), rows, HEIGHT), (HEIGHT,)) for name, (rows, parts) in found.items()}
    verdict = judged(cases, measure="B, the least over token policies and forms,", unit="decoder")
    return leaving_out(verdict, blocks_of_different_n(table, "decoder"))
