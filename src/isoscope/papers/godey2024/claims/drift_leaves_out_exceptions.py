"""Claim 4: in the models that the paper excepts drift and cosine do not go together."""

from __future__ import annotations

import pandas as pd

from isoscope.core.claim import Verdict, claim
from isoscope.statistics.drift_claims import left_out_by_layers, rank_cases
from isoscope.statistics.equal_n import leaving_out
from isoscope.statistics.evidence import TRANSFORMERS
from isoscope.statistics.verdicts import judged_each

EXCEPTED = ("GPT-2", "CANINE-c", "MANTa-base", "HuBERT", "Whisper-base")


@claim(
    number=4,
    paper="godey2024",
    statement="In GPT-2 (by ranks), CANINE-c, MANTa-base, HuBERT and Whisper-base drift and cosine do not go together: ρ is below 0.3.",
    refuted_by="one of them in which ρ, by differences between layers, lies surely above 0.3",
    needs="GPT-2, CANINE-c, MANTa-base, HuBERT and Whisper-base: `isoscope measure openai-community/gpt2 google/canine-c … --out RUN`",
)
def drift_leaves_out_exceptions(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """Spearman's ρ of first differences in each of them; those of fewer than twelve layers are not looked at."""
    cases = rank_cases(table, TRANSFORMERS, EXCEPTED)
    return leaving_out(
        judged_each(cases, EXCEPTED, measure="Spearman's ρ between the differences of drift ratio and cosine", above=False),
        left_out_by_layers(table, TRANSFORMERS),
    )
