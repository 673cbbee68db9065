"""What the tables hold for a claim about training: what was derived of a suite, its first and last step, its components."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from isoscope.core.group import UNTRAINED, suites
from isoscope.statistics.evidence import SAME, Units, by_stack, thirds
from isoscope.statistics.inference import Estimate, student
from isoscope.statistics.onset import Track, onset

ONE_SEED = "no interval: one seed does not show how much trainings differ"


def derived(table: pd.DataFrame, metric: str) -> Units:
    """The rows of a suite that were derived of all its checkpoints, by suite; of several token policies those of `all`.

    Their `n` counts seeds, or heads, so that n − 1 are the degrees of freedom of their intervals. A change in one seed has an interval over
    documents, which is about that training alone; a claim is about trainings, and so does not get it.
    """
    own = table[table["metric"].eq(metric) & table["value"].notna()]
    policies = list(own["policy"].dropna().unique())
    own = own[own["policy"].eq("all" if "all" in policies or not policies else policies[0]) | own["policy"].isna()]
    own = own.drop_duplicates([*SAME, "step", "seed"])
    alone = own["n"].eq(1).fillna(False) & own["metric"].str.endswith("_change")
    own = own.assign(low=own["low"].mask(alone), high=own["high"].mask(alone))
    return by_stack(own.assign(freedom=(own["n"].astype("float64") - 1).where(own["n"].gt(1), math.inf)))


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


def onsets_by_seed(table: pd.DataFrame, metric: str) -> Units:
    """When a number of heads begins to change, by suite: a row a seed, layer and head with `onset`, its value at the `end`, and `step`."""
    own = _checkpoint_rows(table, metric, "attention", "all")
    own = own[own["head"].notna() & own["step"].notna()].assign(seed=own["seed"].fillna(-1)).sort_values("step", kind="stable")
    found: Units = {}
    for name, rows in by_stack(own).items():
        made = []
        for (seed, layer, head), points in rows.groupby(["seed", "layer", "head"]):
            track = Track(*points[["step", "value", "low", "high"]].to_numpy(float).T)
            made.append((seed, layer, head, onset(track).value, track.values[-1], track.steps[-1]))
        found[name] = pd.DataFrame(made, columns=["seed", "layer", "head", "onset", "end", "step"])
    return found


def _checkpoint_rows(table: pd.DataFrame, metric: str, kind: str, policy: str) -> pd.DataFrame:
    own = table[table["metric"].eq(metric) & table["kind"].eq(kind) & table["policy"].eq(policy) & table["value"].notna()]
    return own[own["revision"].notna() | own["step"].notna()]


def over_seeds(rows: pd.DataFrame, values: pd.Series | None = None) -> Estimate:
    """The mean over seeds with Student's interval; a single seed has none.

    Layers and heads of one training share its chance, so that an interval over them speaks where nothing happens on average over
    trainings, and one over documents, which knows that one training very well, speaks nearly always.

    `values`: a number for each row, where it is not the column `value`.
    """
    own = rows["value"] if values is None else values
    seeds = own.groupby(rows["seed"].fillna(-1)).mean()
    note = f"interval over {len(seeds)} seeds" if len(seeds) > 1 else ONE_SEED
    return replace(student(seeds), note=note)


def third_gap(rows: pd.DataFrame) -> Estimate:
    """The mean over the first third of layers less that over the last, over seeds; a single seed has no interval."""
    means = [part["value"].groupby(part["seed"].fillna(-1)).mean() for part in thirds(rows)]
    found = student((means[0] - means[1]).dropna())
    return found if len(means[0]) > 1 else replace(found, note=ONE_SEED)


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
