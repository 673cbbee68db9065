"""Which models a claim must leave out, because it would compare their layers or steps and these have different n."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import pandas as pd

from isoscope.core.claim import Verdict
from isoscope.core.group import suites
from isoscope.core.number import THIS_N, same_n
from isoscope.statistics.evidence import Units, by_stack, different_n

LeftOut = dict[str, str]
"""By model, why it is left out."""


def layers_of_different_n(found: Mapping[str, pd.DataFrame]) -> LeftOut:
    """The models whose own rows, of several layers, depend on n and have different n."""
    return {name: said.partition(";")[0] for name, rows in found.items() if (said := different_n(rows))}


def steps_of_different_n(table: pd.DataFrame, metric: str, kind: str) -> LeftOut:
    """The suites of which a layer, or head, has different n at different steps or seeds, for a metric that depends on n."""
    own = table[table["metric"].eq(metric) & table["kind"].eq(kind) & table["policy"].eq("all")]
    own = own[own["interval_about"].eq(THIS_N) & own["n"].notna() & own["step"].notna()]
    found: LeftOut = {}
    for name, rows in by_stack(own[own["model"].isin(suites(own))]).items():
        ends = rows.groupby(["layer", "head"], dropna=False)["n"].agg(["min", "max"])
        low, high = int(ends["min"].min()), int(ends["max"].max())
        if not all(same_n(*pair) for pair in ends.itertuples(index=False)):
            found[name] = f"n differs between steps ({low:,} to {high:,}) and {metric} depends on n; measure all with --max-tokens {low}"
    return found


def without(found: Units, left: Collection[str]) -> Units:
    """The models that are not left out."""
    return {name: rows for name, rows in found.items() if name not in left}


def leaving_out(verdict: Verdict, left: LeftOut) -> Verdict:
    """The verdict, with who was left out of it and why; undecided where there is nobody else."""
    if not left:
        return verdict
    named = "; ".join(f"{name}: {said}" for name, said in left.items())
    if not verdict.findings:
        return replace(verdict, outcome="undecided", said=f"Not compared: {named}.")
    return replace(verdict, said=f"{verdict.said} Left out: {named}.")
