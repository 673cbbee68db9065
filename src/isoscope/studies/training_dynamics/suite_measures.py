"""A suite as a run holds it, and what one walk over its statistics leaves."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from isoscope.core.number import Number
from isoscope.core.numerics import Floats
from isoscope.core.table import TABLE_COLUMNS, concat_tables
from isoscope.estimation.inference import Estimate
from isoscope.estimation.isotropic_quantiles import head_threshold
from isoscope.studies.training_dynamics.common_basis import HeadSums
from isoscope.studies.training_dynamics.rise_and_fall import Levels

DRIFT, SHARPNESS, COSINE = "drift_ratio", "attention_entropy_normalised", "qk_cosine"
CHANGES = (("hidden", "between_cosine"), ("hidden", "top_share"), ("hidden", DRIFT), ("attention", "attention_entropy"))
"""Kinds and metrics of which the change from the first to the last step is a row, for each layer and for the mean over blocks."""
NEEDED = {DRIFT, SHARPNESS, COSINE, *(metric for _, metric in CHANGES)}
RULE = "the head with the {} cos(Q̄, K̄) at the last step, over all layers of the first seed with the most steps"
BASES = ("union", "query", "key")
NAN = float("nan")
Seed = int | None
Points = dict[str, Any]
"""Part of a series: columns, each one value for all points or an array of one a point; `y` is an array."""


class Place(NamedTuple):
    """A layer of a stack."""

    stack: str
    layer: int


class Head(NamedTuple):
    """A head of a layer."""

    place: Place
    head: int


@dataclass(frozen=True)
class MeasuredSuite:
    """What the checkpoints of a suite are, and what every derived row says of them."""

    columns: dict[str, Any]
    spec: dict[str, Any]
    checkpoints: tuple[tuple[Seed, int], ...]
    policy: str = "all"

    @property
    def seeds(self) -> list[Seed]:
        """In order."""
        return list(dict.fromkeys(seed for seed, _ in self.checkpoints))

    def steps_of(self, seed: Seed) -> list[int]:
        """The steps of a seed, in order."""
        return [step for own, step in self.checkpoints if own == seed]

    @cached_property
    def main(self) -> Seed:
        """The first seed of those with the most steps."""
        return max(self.seeds, key=lambda seed: len(self.steps_of(seed)))

    @property
    def ends(self) -> tuple[int, int]:
        """The first and the last step of that seed."""
        steps = self.steps_of(self.main)
        return steps[0], steps[-1]

    @property
    def whole(self) -> list[Seed]:
        """The seeds that have that first and that last step."""
        return [seed for seed in self.seeds if set(self.ends) <= set(self.steps_of(seed))]

    @property
    def followed(self) -> list[Seed]:
        """Of these, the seeds with steps between."""
        return [seed for seed in self.whole if len(self.steps_of(seed)) >= 3]


@dataclass
class Gathered:
    """What one walk over a suite's statistics leaves."""

    means: dict[Place, dict[tuple[Seed, int], tuple[Floats, Floats]]] = field(default_factory=dict)
    """By layer, seed and step: Q̄ and the K̄ that each query looks at, (h, e)."""
    sums: dict[tuple[Seed, Place], tuple[HeadSums, HeadSums]] = field(default_factory=dict)
    """By seed and layer: sums over all steps of queries and of keys."""
    joined: dict[tuple[Place, Seed, int], Number] = field(default_factory=dict)
    """cos(Q̄, K̄) with a layer's heads side by side."""
    clouds: dict[tuple[Head, int], tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)
    """By head and step: a few queries and keys (m, e)."""
    levels: dict[Place, dict[tuple[Seed, int], Levels]] = field(default_factory=dict)
    """Intrinsic dimensions of hidden states."""
    points: int = 0
    """Points of each half behind them, the same at every layer, step and seed."""


def read_rows(tables: Iterable[pd.DataFrame], policy: str) -> pd.DataFrame:
    """The rows of all checkpoints that the dynamics are made of."""
    kept = [rows[rows["policy"].eq(policy) & rows["metric"].isin(NEEDED)] for rows in tables]
    return concat_tables(kept, TABLE_COLUMNS).sort_values("step", kind="stable")


def extreme_heads(suite: MeasuredSuite, rows: pd.DataFrame) -> tuple[Head | None, Head | None]:
    """The heads whose mean query and key point most the same way, and most opposite ways, at the last step; None where none does."""
    last = last_cosines(suite, rows)
    found: list[Head | None] = []
    for sign in (1, -1):
        own = last[sign * last["value"] > 0]
        best = own.iloc[int((sign * own["value"]).to_numpy().argmax())] if len(own) else None
        found.append(None if best is None else Head(Place(str(best["stack"]), int(best["layer"])), int(best["head"])))
    return found[0], found[1]


def last_cosines(suite: MeasuredSuite, rows: pd.DataFrame) -> pd.DataFrame:
    """cos(Q̄, K̄) of all heads of the main seed at the last step."""
    seed = rows["seed"].isna() if suite.main is None else rows["seed"].eq(suite.main)
    own = rows["metric"].eq(COSINE) & rows["kind"].eq("attention") & rows["head"].notna() & rows["value"].notna()
    return rows[(own & seed & rows["step"].eq(suite.ends[1])).fillna(False)].sort_values(["stack", "layer", "head"]).reset_index(drop=True)


def chance_levels(suite: MeasuredSuite, rows: pd.DataFrame) -> dict[str, float]:
    """By stack, the |cos(Q̄, K̄)| that its heads exceed anywhere with 5 % chance at most."""
    return {str(stack): head_threshold(int(own["d"].iloc[0]), len(own)) for stack, own in last_cosines(suite, rows).groupby("stack")}


def row(suite: MeasuredSuite, metric: str, value: Estimate, *, note: str = "", verdict: str = "", **more: Any) -> dict[str, Any]:
    """A row of the table; `more` are columns."""
    said = "; ".join(part for part in (value.note, note) if part)
    spec = suite.spec | ({"note": said} if said else {}) | ({"verdict": verdict} if verdict else {})
    own = {"metric": metric, "value": value.value, "low": value.low, "high": value.high, "policy": suite.policy}
    return suite.columns | own | {"spec": json.dumps(spec, sort_keys=True, ensure_ascii=False)} | more
