"""The evidence of the untrained block: curves over the norm of the bias by draw, rows by block, and the block that was published."""

from __future__ import annotations

import re
from dataclasses import replace

import pandas as pd

from isoscope.claims.claim import UNTESTED, Verdict
from isoscope.claims.deciding import Effects, Thresholds, outcomes_by_threshold
from isoscope.claims.evidence import RowsByName, format_estimate, format_number, rows_by_model
from isoscope.claims.verdicts import DEPENDS, count_outcome, level_table, make_findings, make_verdict
from isoscope.estimation.inference import Estimate, student

NEEDS = "the experiment on an untrained block: `isoscope untrained-block --out RUN`"


def bias_curves(series: pd.DataFrame, name: str, layer: int = 1) -> RowsByName:
    """A curve over the norm of the bias, by block: one row per draw and one column per norm. Layer 0 enters the first block."""
    own = series[series["name"].eq(name) & series["layer"].eq(layer)]
    return {model: points.pivot_table(index="seed", columns="x", values="y") for model, points in rows_by_model(own).items()}


def growth(curve: pd.DataFrame) -> Estimate:
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
    above = " and ".join(format_number(level) for level in levels[own])
    parts = [f"{measure} of {own} is {format_estimate(effects[own])}, claimed to lie above {above}"]
    parts += [DEPENDS] if len({outcomes[own] for outcomes in at_levels}) > 1 else []
    if further:
        held, failed = count_outcome(further, "holds"), count_outcome(further, "fails")
        parts.append(f"of {len(further)} other blocks it holds in {held} and fails in {failed}")
    return make_verdict(findings[0].outcome, parts, (*findings, *further), effects[own], findings[0].threshold)
