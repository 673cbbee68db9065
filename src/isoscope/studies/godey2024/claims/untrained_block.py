"""Statements 6 and 7: the norms and cosines of an untrained block, and its queries, keys and attention."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace

import pandas as pd

from isoscope.claims.claim import UNTESTED, Decide, Finding, Outcome, Section, Verdict
from isoscope.claims.deciding import Effects, Thresholds, outcomes_by_threshold
from isoscope.claims.evidence import RowsByName, cosine_thresholds, describe_estimate, row_estimates, rows_by_model
from isoscope.claims.verdicts import DEPENDS, count_outcome, level_table, make_findings, make_verdict
from isoscope.core.wording import format_list
from isoscope.estimation.inference import Estimate, clopper_pearson, least_of, student
from isoscope.studies.untrained_block.curves import TRAINED
from isoscope.trust.safe_io import parse_object

NEEDS = "the experiment on an untrained block: `isoscope untrained-block --out RUN`"


def bias_curves(series: pd.DataFrame, name: str, layer: int = 1) -> RowsByName:
    """A curve over the norm of the bias, by block: one row per draw and one column per norm. Layer 0 enters the first block."""
    own = series[series["name"].eq(name) & series["layer"].eq(layer)]
    return {model: points.pivot_table(index="seed", columns="x", values="y") for model, points in rows_by_model(own).items()}


def change_with_bias(curve: pd.DataFrame) -> Estimate:
    """The change of a curve from the smallest bias to the largest, with Student's interval over draws."""
    wide = curve.sort_index(axis=1)
    change = student(wide.iloc[:, -1] - wide.iloc[:, 0])
    return replace(change, note=f"from N = {wide.columns[0]:g} to {wide.columns[-1]:g}, over {len(wide)} draws")


def is_published_block(model: object) -> bool:
    """Whether a block is the published one, of any width: BERT's initialisation, a norm after each part, nothing left out.

    >>> [is_published_block(f"block bert post-LN{more}") for more in ("", ", d = 384", ", mlp only")]
    [True, True, False]
    """
    return re.fullmatch(r"block bert post-LN(, d = \d+)?", str(model)) is not None


def is_complete_block(model: object) -> bool:
    """Whether a block has all its parts, and stands alone."""
    changes = ("only", "no residual", "no norm", "uniform", "blocks")
    return str(model).startswith("block ") and not any(words in str(model) for words in changes)


def block_rows(table: pd.DataFrame, metric: str) -> RowsByName:
    """The row of each untrained block, behind the first block; a value may be missing."""
    return rows_by_model(table[table["metric"].eq(metric) & table["kind"].eq("block") & table["layer"].eq(1)].drop_duplicates("model"))


def decide_published_block(effects: Effects, thresholds: float | Thresholds = 0.0, *, measure: str) -> Verdict:
    """The verdict on the published block; the findings on complete blocks of other kinds follow its own."""
    own = next((name for name in effects if is_published_block(name)), None)
    if own is None:
        return UNTESTED
    levels = level_table(effects, thresholds)
    # Holm's adjustment is over the others alone: the claim is about one block, which was chosen beforehand.
    others = {name: effect for name, effect in effects.items() if name != own and is_complete_block(name)}
    at_levels = outcomes_by_threshold({own: effects[own]}, levels)
    findings = make_findings({own: effects[own]}, levels, at_levels, above=True)
    further = make_findings(others, levels, outcomes_by_threshold(others, levels), above=True) if others else ()
    above = format_list(f"{level:.3g}" for level in levels[own])
    parts = [f"{measure} of {own} is {describe_estimate(effects[own])}, claimed to lie above {above}"]
    parts += [DEPENDS] if len({outcomes[own] for outcomes in at_levels}) > 1 else []
    if further:
        held, failed = count_outcome(further, "holds"), count_outcome(further, "fails")
        parts.append(f"of {len(further)} other blocks it holds in {held} and fails in {failed}")
    return make_verdict(findings[0].outcome, parts, (*findings, *further), effects[own], findings[0].threshold)


statement_6 = Section("godey2024", 6, NEEDS)


@statement_6.claim(
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


@statement_6.claim(
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
    parts = [f"N* of {own.on} is {describe_estimate(points[own.on])}"]
    without = [finding.on for finding in findings if finding.outcome == "fails"]
    parts += [f"no crossing in {format_list(without)}, so N* depends on where the norm is"] if without else []
    return make_verdict("holds", parts, findings, points[own.on], 0.0)


@statement_6.claim(
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


BERT_HEAD = 64
"""The dimensions of a head of BERT-base."""


def decide_growth(signs: Mapping[str, int], *, measure: str, relative: bool = False) -> Decide:
    """A function that decides whether curves of the block change with the bias as claimed: the weakest of the changes.

    `signs` has 1 for a curve that is claimed to rise and −1 for one that is claimed to fall. `relative` divides each draw by its value at
    the smallest bias, so that different quantities can be compared.
    """

    def decide(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
        curves = {name: bias_curves(series, name) for name in signs}
        # A run may hold some of the curves only; a block needs all of them.
        blocks = [block for block in next(iter(curves.values())) if all(block in by_block for by_block in curves.values())]
        effects = {}
        for block in blocks:
            own = {name: by_block[block].sort_index(axis=1) for name, by_block in curves.items()}
            own = {name: wide.div(wide.iloc[:, 0], axis=0) if relative else wide for name, wide in own.items()}
            effects[block] = least_of([change_with_bias(wide).linear(signs[name]) for name, wide in own.items()])
        return decide_published_block(effects, measure=measure)

    return decide


statement_7 = Section("godey2024", 7, NEEDS)

statement_7.add_claim(
    "scores_leave_zero",
    statement="The scores of an untrained block move away from zero as the bias grows.",
    refuted_by="mean scores of heads that come surely nearer to zero from the smallest bias to the largest",
    decide=decide_growth({"block_score_offset": 1}, measure="the growth of the size of a head's mean score"),
)
statement_7.add_claim(
    "score_variance_grows",
    statement="The spread of the scores of an untrained block grows with the bias.",
    refuted_by="a standard deviation of scores that falls surely from the smallest bias to the largest",
    decide=decide_growth({"block_score_sd": 1}, measure="the growth of the standard deviation of scores"),
)
statement_7.add_claim(
    "query_and_key_norms_grow",
    statement="The norms of the queries and keys of an untrained block grow with the bias.",
    refuted_by="norms of queries, or of keys, that fall surely from the smallest bias to the largest",
    decide=decide_growth(
        {"block_query_norm": 1, "block_key_norm": 1}, measure="the growth of the norms of queries or keys, whichever is less,"
    ),
)
statement_7.add_claim(
    "rows_sharpen_with_bias",
    statement="Rows of attention of an untrained block sharpen as the bias grows: maximum up, minimum down, entropy down.",
    refuted_by="a maximum that surely falls, a minimum or an entropy that surely rises from the smallest bias to the largest",
    decide=decide_growth(
        {"block_row_max": 1, "block_row_min": -1, "block_entropy": -1},
        relative=True,
        measure="the relative sharpening by maximum, minimum or entropy, whichever is least,",
    ),
)


@statement_7.claim(
    statement="The sign of the scores is random: both signs occur over draws of the weights.",
    refuted_by="one sign in all of six draws or more",
    needs="the experiment on an untrained block, six draws or more: `isoscope untrained-block --draws 10 --out RUN`",
)
def score_sign_is_drawn(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The share of draws whose mean score at the largest bias is positive."""
    curves = {name: curve for name, curve in bias_curves(series, "block_score_mean").items() if is_published_block(name)}
    if not curves:
        return UNTESTED
    name, curve = next(iter(curves.items()))
    ends = curve.sort_index(axis=1).iloc[:, -1].dropna()
    wins, n = int((ends > 0).sum()), len(ends)
    low, high = clopper_pearson(wins, n)
    outcome: Outcome = "holds" if 0 < wins < n else "fails" if not low <= 0.5 <= high else "undecided"
    sentence = f"The mean score at the largest bias is positive in {wins} of {n} draws."
    return Verdict(outcome, sentence, (Finding(name, outcome, wins / n, low, high, 0.5),), wins / n, low, high, 0.5)


@statement_7.claim(
    statement="The queries and keys of an untrained block are anisotropic even without a bias.",
    refuted_by="a cosine of queries, or of keys, that lies surely below the threshold at the smallest bias",
    needs="the experiment on an untrained block, with a norm of 0 in its grid: `isoscope untrained-block --norms 0,1,5,30 --out RUN`",
)
def queries_and_keys_are_anisotropic_without_bias(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The cosine at the smallest bias, above all three thresholds in a head's own dimensions; the weaker of queries and keys."""
    queries, keys = (block_rows(table, f"{kind}_cosine_unbiased") for kind in ("query", "key"))
    measured = [name for name in queries if name in keys and queries[name]["value"].notna().all()]
    effects = {name: least_of([row_estimates(queries[name])[0], row_estimates(keys[name])[0]]) for name in measured}
    thresholds = {name: cosine_thresholds(head_dimension(queries[name]["spec"].iloc[0])) for name in measured}
    return decide_published_block(effects, thresholds, measure="the cosine of queries or keys at the smallest bias, whichever is less,")


def head_dimension(spec: object) -> int:
    """The dimensions of a head, from the experiment's settings or, if these lack them, those of BERT."""
    match parse_object(spec):
        case {"d": int(d), "heads": int(heads)} if 0 < heads <= d:
            return d // heads
    return BERT_HEAD
