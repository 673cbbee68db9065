"""What the tables hold for a claim about training: what was derived of a suite, its first and last step, its components."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from isoscope.core.group import UNTRAINED, suites
from isoscope.statistics.deciding import between_groups
from isoscope.statistics.evidence import SAME, Units, by_stack, thirds
from isoscope.statistics.onset import Estimate, student


def derived(table: pd.DataFrame, metric: str) -> Units:
    """The rows of a suite that were derived of all its checkpoints, by suite; of several token policies those of `all`."""
    own = table[table["metric"].eq(metric) & table["value"].notna()]
    policies = list(own["policy"].dropna().unique())
    own = own[own["policy"].eq("all" if "all" in policies or not policies else policies[0]) | own["policy"].isna()]
    return by_stack(own.drop_duplicates([*SAME, "step", "seed"]))


def at_end(table: pd.DataFrame, metric: str, *, kind: str = "attention", policy: str = "all") -> Units:
    """The rows of trained models, of a suite those of its last step in every seed that has it."""
    own = _checkpoint_rows(table, metric, kind, policy)
    own = own[~own["model"].str.startswith(UNTRAINED)]
    last = own.groupby("model")["step"].transform("max")
    return by_stack(own[own["step"].isna() | own["step"].eq(last)])


def ends(table: pd.DataFrame, metric: str, *, kind: str, policy: str = "all", size: bool = False) -> Units:
    """First and last step of suites, by suite: a row a seed, layer and head with `first` and `last`; `size` leaves signs out."""
    own = _checkpoint_rows(table, metric, kind, policy)
    found: Units = {}
    for name, rows in by_stack(own[own["model"].isin(suites(own))]).items():
        values = rows.assign(value=rows["value"].abs() if size else rows["value"], seed=rows["seed"].fillna(-1))
        wide = values.pivot_table(index=["seed", "layer", "head"], columns="step", values="value", dropna=False)
        both = wide[[wide.columns.min(), wide.columns.max()]].set_axis(["first", "last"], axis=1).dropna().reset_index()
        if len(both):
            found[name] = both
    return found


def _checkpoint_rows(table: pd.DataFrame, metric: str, kind: str, policy: str) -> pd.DataFrame:
    own = table[table["metric"].eq(metric) & table["kind"].eq(kind) & table["policy"].eq(policy) & table["value"].notna()]
    return own[own["revision"].notna() | own["step"].notna()]


def over_seeds(values: pd.Series, seeds: pd.Series, units: str = "heads") -> Estimate:
    """The mean over seeds with Student's interval; of a single seed over its heads."""
    means = values.groupby(seeds.fillna(-1)).mean()
    found, over = (student(means), f"{len(means)} seeds") if len(means) > 1 else (student(values), units)
    return Estimate(found.value, found.low, found.high, f"interval over {over}")


def third_gap(rows: pd.DataFrame) -> Estimate:
    """The mean over the first third of layers less that over the last: over seeds, or of a single seed over heads."""
    first, last = thirds(rows)
    means = [part["value"].groupby(part["seed"].fillna(-1)).mean() for part in (first, last)]
    if len(means[0]) < 2:
        return between_groups(first["value"].to_numpy(float), last["value"].to_numpy(float))
    return student((means[0] - means[1]).dropna())


def parts_along(table: pd.DataFrame, series: pd.DataFrame, basis: str, kinds: Sequence[str], first: int) -> Units:
    """The part of a mean query's or key's squared length along the first components of a basis, at the last step, by suite.

    Columns `value` and `seed`, a row a head and kind.
    """
    found: Units = {}
    along = series[series["name"].eq(f"mean_along_{basis}") & series["kind"].isin(list(kinds)) & series["x"].le(first)]
    keys = ["model", "stack", "kind", "seed", "layer", "head", "step"]
    lengths = table[table["metric"].eq("drift_norm") & table["kind"].isin(list(kinds)) & table["head"].notna() & table["policy"].eq("all")]
    for name, points in by_stack(along).items():
        last = points[points["step"].eq(points["step"].max())]
        held = last.assign(y=last["y"] ** 2).groupby(keys, dropna=False)["y"].sum().reset_index()
        both = held.merge(lengths[[*keys, "value"]].drop_duplicates(keys), on=keys)
        both = both[both["value"] > 0]
        if len(both):
            found[name] = both.assign(value=both["y"] / both["value"] ** 2)
    return found
