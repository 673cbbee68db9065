"""The evidence of trainings, by head: first and last step, onsets, and how much of the drift lies along components."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from isoscope.claims.evidence import RowsByName, rows_by_stack
from isoscope.claims.suite_evidence import checkpoint_rows
from isoscope.core.model_groups import list_suites
from isoscope.studies.training_dynamics.onset import Track, onset

HEAD = ["seed", "layer", "head"]


def first_and_last(table: pd.DataFrame, metric: str, *, kind: str, absolute: bool = False) -> RowsByName:
    """By suite, one row per seed, layer and head with the values at the `first` and the `last` step; `absolute` drops their signs."""
    rows = checkpoint_rows(table, metric, kind)
    by_suite: RowsByName = {}
    for name, own in rows_by_stack(rows[rows["model"].isin(list_suites(rows))]).items():
        values = own.assign(value=own["value"].abs() if absolute else own["value"], seed=own["seed"].fillna(-1))
        wide = values.pivot_table(index=HEAD, columns="step", values="value", dropna=False)
        ends = wide[[wide.columns.min(), wide.columns.max()]].set_axis(["first", "last"], axis=1).dropna().reset_index()
        if len(ends):
            by_suite[name] = ends
    return by_suite


def head_onsets(table: pd.DataFrame, metric: str) -> RowsByName:
    """By suite, one row per seed, layer and head: the step at which a number begins to change (`onset`), its `end`, and the last `step`."""
    rows = checkpoint_rows(table, metric, "attention")
    rows = rows[rows["head"].notna() & rows["step"].notna()].assign(seed=rows["seed"].fillna(-1)).sort_values("step", kind="stable")
    by_suite: RowsByName = {}
    for name, own in rows_by_stack(rows).items():
        heads = []
        for place, points in own.groupby(HEAD):
            track = Track(*points[["step", "value", "low", "high"]].to_numpy(float).T)
            heads.append((*place, onset(track).value, track.values[-1], track.steps[-1]))
        by_suite[name] = pd.DataFrame(heads, columns=[*HEAD, "onset", "end", "step"])
    return by_suite


def drift_along_components(table: pd.DataFrame, series: pd.DataFrame, basis: str, kinds: Sequence[str], first: int) -> RowsByName:
    """By suite, one row per head and kind at the last step: the share of ‖mean‖² along the first components of a basis, as `value`."""
    along = series[series["name"].eq(f"mean_along_{basis}") & series["kind"].isin(list(kinds)) & series["x"].le(first)]
    keys = ["model", "stack", "kind", *HEAD, "step"]
    norms = table[table["metric"].eq("drift_norm") & table["kind"].isin(list(kinds)) & table["head"].notna() & table["policy"].eq("all")]
    by_suite: RowsByName = {}
    for name, points in rows_by_stack(along).items():
        last = points[points["step"].eq(points["step"].max())]
        squares = last.assign(y=last["y"] ** 2).groupby(keys, dropna=False)["y"].sum().reset_index()
        heads = squares.merge(norms[[*keys, "value"]].drop_duplicates(keys), on=keys)
        heads = heads[heads["value"] > 0]
        if len(heads):
            by_suite[name] = heads.assign(value=heads["y"] / heads["value"] ** 2)
    return by_suite
