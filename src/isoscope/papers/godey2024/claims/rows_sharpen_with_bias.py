"""Claim 7: rows of attention sharpen as the bias grows."""

from __future__ import annotations

import pandas as pd

from isoscope.core.claim import Verdict, claim
from isoscope.statistics.block_evidence import draws, growth
from isoscope.statistics.deciding import Case, shifted, weakest
from isoscope.statistics.verdicts import on_blocks

SIGNS = {"block_row_max": 1, "block_row_min": -1, "block_entropy": -1}


@claim(
    number=7,
    paper="godey2024",
    statement="Rows of attention of an untrained block sharpen as the bias grows: maximum up, minimum down, entropy down.",
    refuted_by="a maximum that surely falls, a minimum or an entropy that surely rises from the smallest bias to the largest",
    needs="the experiment on an untrained block: `isoscope untrained-block --out RUN`",
)
def rows_sharpen_with_bias(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The change of each as a part of its value at the smallest bias, turned so that sharpening is positive; the weakest of the three."""
    curves = {name: draws(series, name) for name in SIGNS}
    cases = {}
    for block in curves["block_row_max"]:
        own = {name: found[block] for name, found in curves.items() if block in found}
        if len(own) == len(SIGNS):
            moved = [shifted(growth(relative(curve)), 0.0, scale=SIGNS[name]) for name, curve in own.items()]
            cases[block] = Case(weakest(moved), (0.0,))
    return on_blocks(cases, measure="the relative sharpening by maximum, minimum or entropy, whichever is least,")


def relative(curve: pd.DataFrame) -> pd.DataFrame:
    """Each draw as a part of its value at the smallest bias."""
    wide = curve.sort_index(axis=1)
    return wide.div(wide.iloc[:, 0], axis=0)
