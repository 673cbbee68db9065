"""Numbers that depend on n are compared at equal n only: which models a claim must leave out, and what its verdict then says."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import pandas as pd

from isoscope.claims.claim import Verdict
from isoscope.claims.evidence import RowsByName, rows_by_stack
from isoscope.core.model_groups import list_suites
from isoscope.core.number import THIS_N, same_n

LeftOut = dict[str, str]
"""By model, why it is left out."""


def describe_different_n(rows: pd.DataFrame) -> str:
    """Why these rows cannot be compared, if their metric depends on n and they have different n; else empty."""
    own = rows[rows["interval_about"].eq(THIS_N) & rows["n"].notna()]
    for metric, of_metric in own.groupby("metric", sort=False):
        low, high = int(of_metric["n"].min()), int(of_metric["n"].max())
        if not same_n(low, high):
            return f"n differs ({low:,} to {high:,}) and {metric} depends on n; measure all of them with --max-tokens {low}"
    return ""


def layers_of_different_n(rows_by_name: Mapping[str, pd.DataFrame]) -> LeftOut:
    """The models whose layers have different n, for a metric that depends on n."""
    reasons = {name: describe_different_n(rows) for name, rows in rows_by_name.items()}
    # Without the advice after the semicolon: --max-tokens cannot make the layers of one network equal.
    return {name: reason.partition(";")[0] for name, reason in reasons.items() if reason}


def steps_of_different_n(table: pd.DataFrame, metric: str, kind: str) -> LeftOut:
    """The suites in which a layer or head has different n at different steps or seeds, for a metric that depends on n."""
    own = table[table["metric"].eq(metric) & table["kind"].eq(kind) & table["policy"].eq("all")]
    own = own[own["interval_about"].eq(THIS_N) & own["n"].notna() & own["step"].notna()]
    left_out: LeftOut = {}
    for name, rows in rows_by_stack(own[own["model"].isin(list_suites(own))]).items():
        ranges = rows.groupby(["layer", "head"], dropna=False)["n"].agg(["min", "max"])
        low, high = int(ranges["min"].min()), int(ranges["max"].max())
        if not all(same_n(*pair) for pair in ranges.itertuples(index=False)):
            left_out[name] = f"n differs between steps ({low:,} to {high:,}) and {metric} depends on n; measure all with --max-tokens {low}"
    return left_out


def split_comparable(rows_by_name: RowsByName, reasons: LeftOut) -> tuple[RowsByName, LeftOut]:
    """The models without a reason to leave them out, and those with one."""
    comparable = {name: rows for name, rows in rows_by_name.items() if name not in reasons}
    return comparable, {name: reason for name, reason in reasons.items() if name in rows_by_name}


def mention_left_out(verdict: Verdict, left_out: LeftOut) -> Verdict:
    """The verdict with the models that were left out of it, and why; undecided if no other model remains."""
    if not left_out:
        return verdict
    reasons = "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
    if not verdict.findings:
        return replace(verdict, outcome="undecided", sentence=f"Not compared: {reasons}.")
    return replace(verdict, sentence=f"{verdict.sentence} Left out: {reasons}.")


def require_equal_n(verdict: Verdict, rows: pd.DataFrame) -> Verdict:
    """A verdict that compares these rows of several models with each other: undecided if they depend on n and have different n."""
    reason = describe_different_n(rows) if verdict.findings else ""
    if not reason:
        return verdict
    return replace(verdict, outcome="undecided", sentence=f"Not compared: {reason}.", effect=math.nan, low=math.nan, high=math.nan)
