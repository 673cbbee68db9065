"""The rows of the tables that test a claim about training: those derived from a whole suite, and those of its checkpoints."""

from __future__ import annotations

import math
from dataclasses import replace

import pandas as pd

from isoscope.claims.evidence import ROW_KEYS, RowsByName, rows_by_stack
from isoscope.core.model_groups import UNTRAINED
from isoscope.estimation.inference import Estimate, student


def suite_rows(table: pd.DataFrame, metric: str) -> RowsByName:
    """The rows that were derived from all checkpoints of a suite, by suite; of several token policies, those of `all`.

    Their `n` counts seeds, or heads, so the intervals have n − 1 degrees of freedom.
    """
    own = table[table["metric"].eq(metric) & table["value"].notna()]
    policies = list(own["policy"].dropna().unique())
    own = own[own["policy"].eq("all" if "all" in policies or not policies else policies[0]) | own["policy"].isna()]
    own = own.drop_duplicates([*ROW_KEYS, "step", "seed"])
    # A change in a single seed has an interval over documents, which is about that one training. A claim is about trainings.
    alone = own["n"].eq(1).fillna(False) & own["metric"].str.endswith("_change")
    own = own.assign(low=own["low"].mask(alone), high=own["high"].mask(alone))
    return rows_by_stack(own.assign(freedom=(own["n"].astype("float64") - 1).where(own["n"].gt(1), math.inf)))


def checkpoint_rows(table: pd.DataFrame, metric: str, kind: str) -> pd.DataFrame:
    """The rows that were measured at checkpoints, or on models that are no suites, with all tokens."""
    own = table[table["metric"].eq(metric) & table["kind"].eq(kind) & table["policy"].eq("all") & table["value"].notna()]
    return own[own["revision"].notna() | own["step"].notna()]


def final_rows(table: pd.DataFrame, metric: str, *, kind: str = "attention") -> RowsByName:
    """The rows of trained models; of a suite those of its last step, in every seed that has it."""
    own = checkpoint_rows(table, metric, kind)
    own = own[~own["model"].str.startswith(UNTRAINED)]
    last = own.groupby("model")["step"].transform("max")
    return rows_by_stack(own[own["step"].isna() | own["step"].eq(last)])


def seed_means(rows: pd.DataFrame, values: pd.Series | None = None) -> pd.Series:
    """The mean of each seed: of the column `value`, or of `values`, which has one number per row."""
    # A published model has no seed number, and a missing key would be dropped by groupby.
    return (rows["value"] if values is None else values).groupby(rows["seed"].fillna(-1)).mean()


def mean_over_seeds(means: pd.Series) -> Estimate:
    """The mean over seeds with Student's interval; a single seed has none.

    Seeds are the units. Layers and heads of one training share its chance, so an interval over them would decide claims about trainings
    in which nothing happens on average, and an interval over documents would decide them nearly always.
    """
    known = means.dropna()
    several = f"interval over {len(known)} seeds"
    return replace(student(known), note=several if len(known) > 1 else "no interval: one seed does not show how much trainings differ")
