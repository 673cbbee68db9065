"""Claim 8: in training mean queries and mean keys align."""

from __future__ import annotations

import numpy as np
import pandas as pd

from isoscope.core.claim import Finding, Verdict, claim
from isoscope.statistics.alignment import aligned, fallen
from isoscope.statistics.equal_n import leaving_out, steps_of_different_n, without
from isoscope.statistics.inference import holm
from isoscope.statistics.suite_evidence import derived, over_seeds
from isoscope.statistics.verdicts import over


@claim(
    number=8,
    paper="godey2024",
    statement="In training mean queries and mean keys align, in the same or opposite directions, more than those of different heads.",
    refuted_by="a training in which T = mean cos²(Q̄, K̄) surely falls, or ends surely below that of different heads",
    needs="three trainings or more with their dynamics: `isoscope sweep SUITE --taps hidden,attention --out RUN`",
)
def queries_and_keys_align(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """T at the last step less that of other heads of the layer; p of all layers at once with Holm over suites, and T up in every seed."""
    found, tests, shuffled = (derived(table, name) for name in ("alignment", "alignment_p", "alignment_shuffled"))
    left = {name: said for name, said in steps_of_different_n(table, "qk_cosine", "attention").items() if name in found}
    found = {name: rows for name, rows in without(found, left).items() if rows["null"].notna().any() and len(rows["step"].unique()) > 1}
    whole = {name: tests[name][tests[name]["layer"].isna()].sort_values("step") for name in found if name in tests}
    p = {name: float(rows["value"].iloc[-1]) if len(rows) else np.nan for name, rows in whole.items()}
    adjusted = dict(zip(p, holm(np.array(list(p.values()), dtype=float)), strict=True))
    parts = {}
    for name, rows in found.items():
        first, last = (rows[rows["step"].eq(step)] for step in (rows["step"].min(), rows["step"].max()))
        excess = over_seeds(last, last["value"] - last["null"])
        before, after = (part["value"].groupby(part["seed"].fillna(-1)).mean() for part in (first, last))
        moved = (after - before).dropna()
        both = last.merge(first, on=["seed", "layer"], suffixes=("", "_first"))
        change = over_seeds(both, both["value"] - both["value_first"])
        parts[name] = last, moved, change, excess
    fell = fallen([(change, excess) for _, _, change, excess in parts.values()])
    findings = []
    for (name, (last, moved, _, excess)), down in zip(parts.items(), fell, strict=True):
        word = aligned(float(adjusted.get(name, np.nan)), list(moved), down)
        control = f", {shuffled[name]['value'].mean():.2g} with labels shuffled" if name in shuffled else ""
        text = f"T {last['value'].mean():.2g} beside {last['null'].mean():.2g} of other heads{control}; up in {int((moved > 0).sum())} of "
        text += f"{len(moved)} seeds, p = {adjusted.get(name, np.nan):.2g}, {excess.note}"
        findings.append(Finding(name, word, excess.value, excess.low, excess.high, 0.0, text))
    measure = "mean queries and keys align more than those of other heads and more than at the start"
    return leaving_out(over(findings, measure=measure), left)
