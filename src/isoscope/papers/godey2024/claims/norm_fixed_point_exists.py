"""Claim 6: a norm fixed point exists."""

from __future__ import annotations

import math

import pandas as pd

from isoscope.core.claim import NOTHING, Finding, Outcome, Verdict, claim
from isoscope.statistics.block_evidence import block_rows, is_own_block, is_whole_block
from isoscope.statistics.evidence import estimates, in_order, interval


@claim(
    number=6,
    paper="godey2024",
    statement="There is a norm N* of the bias at which the output of an untrained block is as long as its input.",
    refuted_by="a published block in which not every draw has a crossing within the grid",
    needs="the experiment on an untrained block: `isoscope untrained-block --out RUN`",
)
def norm_fixed_point_exists(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """Whether every draw has a crossing by the mean of norms; blocks with other norms stand beside the published one."""
    found = {name: estimates(rows)[0] for name, rows in block_rows(table, "norm_fixed_point").items() if is_whole_block(name)}
    findings = []
    for name, one in sorted(found.items(), key=lambda pair: not is_own_block(pair[0])):
        word: Outcome = "holds" if math.isfinite(one.value) else "fails"
        findings.append(Finding(name, word, one.value, one.low, one.high, 0.0))
    if not findings or not is_own_block(findings[0].on):
        return NOTHING
    own, without = findings[0], [one.on for one in findings if one.outcome == "fails"]
    said = f"N* of {own.on} is {interval(found[own.on])}" if own.outcome == "holds" else f"There is no crossing within the grid in {own.on}"
    said += (
        f"; no crossing in {in_order(without)}, so that it is a property of where the norm is" if own.outcome == "holds" and without else ""
    )
    return Verdict(own.outcome, f"{said}.", tuple(findings), own.effect, own.low, own.high, 0.0)
