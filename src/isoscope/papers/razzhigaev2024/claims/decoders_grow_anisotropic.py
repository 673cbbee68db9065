"""Claim 12: the anisotropy of decoders grows in training."""

from __future__ import annotations

import pandas as pd

from isoscope.core.claim import Verdict, claim
from isoscope.statistics.deciding import Case
from isoscope.statistics.equal_n import leaving_out, steps_of_different_n, without
from isoscope.statistics.evidence import estimates
from isoscope.statistics.suite_evidence import derived
from isoscope.statistics.verdicts import judged


@claim(
    number=12,
    paper="razzhigaev2024",
    statement="The anisotropy of decoders, by their top share, grows in training.",
    refuted_by="a decoder whose top share, the mean over blocks, surely falls from the first step to the last",
    needs="the trainings of three decoders or more with their dynamics: `isoscope sweep SUITE --out RUN`",
)
def decoders_grow_anisotropic(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The top share at the last step less that at the first, the mean over blocks."""
    found = {name: rows[rows["layer"].isna() & rows["stack"].eq("decoder")] for name, rows in derived(table, "top_share_change").items()}
    found = {name: rows for name, rows in found.items() if len(rows)}
    left = {name: said for name, said in steps_of_different_n(table, "top_share", "hidden").items() if name in found}
    cases = {name: Case(estimates(rows)[0], (0.0,)) for name, rows in without(found, left).items()}
    return leaving_out(judged(cases, measure="the change of the top share, the mean over blocks,", unit="decoder"), left)
