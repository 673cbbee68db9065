"""Statement 12: the anisotropy of decoders grows in training."""

from __future__ import annotations

import pandas as pd

from isoscope.claims.claim import Section, Verdict
from isoscope.claims.equal_n import mention_left_out, split_comparable, steps_of_different_n
from isoscope.claims.evidence import row_estimates
from isoscope.claims.suite_evidence import suite_rows
from isoscope.claims.verdicts import decide_models

section = Section("razzhigaev2024", 12, "the trainings of three decoders or more with their dynamics: `isoscope sweep SUITE --out RUN`")


@section.claim(
    statement="The anisotropy of decoders, by their top share, grows in training.",
    refuted_by="a decoder whose top share, the mean over blocks, surely falls from the first step to the last",
)
def decoders_grow_anisotropic(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The top share at the last step less that at the first, the mean over blocks."""
    changes = suite_rows(table, "top_share_change")
    decoders = {name: rows[rows["layer"].isna() & rows["stack"].eq("decoder")] for name, rows in changes.items()}
    decoders = {name: rows for name, rows in decoders.items() if len(rows)}
    decoders, left_out = split_comparable(decoders, steps_of_different_n(table, "top_share", "hidden"))
    effects = {name: row_estimates(rows)[0] for name, rows in decoders.items()}
    verdict = decide_models(effects, measure="the change of the top share, the mean over blocks,", unit="decoder")
    return mention_left_out(verdict, left_out)
