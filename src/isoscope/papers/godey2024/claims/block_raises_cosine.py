"""Claim 6: an untrained block's output is slightly more anisotropic than its input."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from isoscope.core.claim import Verdict, claim
from isoscope.statistics.block_evidence import draws
from isoscope.statistics.deciding import Case, weakest
from isoscope.statistics.onset import Estimate, student
from isoscope.statistics.verdicts import on_blocks


@claim(
    number=6,
    paper="godey2024",
    statement="The output of an untrained block has a higher cosine than its input at every norm of the bias.",
    refuted_by="a least gain over the norms that lies surely below 0",
    needs="the experiment on an untrained block: `isoscope untrained-block --out RUN`",
)
def block_raises_cosine(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """Output minus input cosine at each norm of the grid, with Student's interval over draws; the least over the norms."""
    enters, leaves = (draws(series, "block_cosine", layer) for layer in (0, 1))
    gains = {name: (leaves[name] - enters[name]).dropna(axis=1, how="all") for name in leaves if name in enters}
    cases = {
        name: Case(weakest([at_norm(values, str(norm)) for norm, values in gain.items()]), (0.0,))
        for name, gain in gains.items()
        if gain.size
    }
    return on_blocks(cases, measure="the least gain in cosine over all norms of the bias")


def at_norm(gains: pd.Series, norm: str) -> Estimate:
    """The mean gain over draws at one norm of the bias."""
    return replace(student(gains), note=f"at N = {norm}, over {gains.notna().sum()} draws")
