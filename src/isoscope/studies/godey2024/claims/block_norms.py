"""Statement 6: an untrained block raises the cosine, and has a fixed point of the norm."""

from __future__ import annotations

import math
from dataclasses import replace

import pandas as pd

from isoscope.claims.claim import UNTESTED, Finding, Section, Verdict
from isoscope.claims.evidence import format_estimate, join_names, row_estimates
from isoscope.claims.verdicts import make_verdict
from isoscope.estimation.inference import Estimate, least_of, student
from isoscope.studies.godey2024.claims._block_evidence import (
    NEEDS,
    bias_curves,
    block_rows,
    decide_published_block,
    is_complete_block,
    is_published_block,
)
from isoscope.studies.untrained_block.curves import TRAINED

section = Section("godey2024", 6, NEEDS)


@section.claim(
    statement="The output of an untrained block has a higher cosine than its input at every norm of the bias.",
    refuted_by="a least gain over the norms that lies surely below 0",
)
def block_raises_cosine(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """Output minus input cosine at each norm of the grid, with Student's interval over draws; the least over the norms."""
    enters, leaves = (bias_curves(series, "block_cosine", layer) for layer in (0, 1))
    effects = {}
    for name in [name for name in leaves if name in enters]:
        gains = (leaves[name] - enters[name]).dropna(axis=1, how="all")
        by_norm = [replace(student(own), note=f"at N = {norm}, over {own.notna().sum()} draws") for norm, own in gains.items()]
        if by_norm:
            effects[name] = least_of(by_norm)
    return decide_published_block(effects, measure="the least gain in cosine over all norms of the bias")


@section.claim(
    statement="There is a norm N* of the bias at which the output of an untrained block is as long as its input.",
    refuted_by="a published block in which not every draw has a crossing within the grid",
)
def norm_fixed_point_exists(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """Whether every draw has a crossing by the mean of norms; the findings on other blocks follow that on the published one."""
    points = {name: row_estimates(rows)[0] for name, rows in block_rows(table, "norm_fixed_point").items() if is_complete_block(name)}
    blocks = sorted(points, key=lambda name: not is_published_block(name))
    if not blocks or not is_published_block(blocks[0]):
        return UNTESTED
    findings = tuple(
        Finding(name, "holds" if math.isfinite(point.value) else "fails", point.value, point.low, point.high, 0.0)
        for name, point in ((name, points[name]) for name in blocks)
    )
    own = findings[0]
    if own.outcome == "fails":
        return make_verdict("fails", [f"there is no crossing within the grid in {own.on}"], findings, points[own.on], 0.0)
    parts = [f"N* of {own.on} is {format_estimate(points[own.on])}"]
    without = [finding.on for finding in findings if finding.outcome == "fails"]
    parts += [f"no crossing in {join_names(without)}, so N* depends on where the norm is"] if without else []
    return make_verdict("holds", parts, findings, points[own.on], 0.0)


@section.claim(
    statement="The norm fixed point N* is of the order of the norms of a trained BERT: within a factor of three of their median.",
    refuted_by="an N* that is surely more than three times as long, or as short",
    needs="an untrained block and a trained model: `isoscope untrained-block --trained MODEL --out RUN`",
)
def norm_fixed_point_is_like_trained_norms(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """ln 3 less the distance between ln N* and ln of the median over layers of the trained mean norm."""
    norms = table.loc[table["metric"].eq(TRAINED), "value"].dropna()
    if norms.empty:
        return UNTESTED
    median, room, effects = float(norms.median()), math.log(3.0), {}
    for name, rows in block_rows(table, "norm_fixed_point").items():
        point = row_estimates(rows)[0]
        if point.value > 0 and point.low > 0:
            value, low, high = (math.log(x / median) for x in (point.value, point.low, point.high))
            ratio = Estimate(value, low, high)
            effects[name] = least_of([ratio.linear(1, room), ratio.linear(-1, room)])
    return decide_published_block(effects, measure=f"ln 3 less the distance of ln N* from ln {median:.3g}, the median trained norm,")
