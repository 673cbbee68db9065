"""Series of queries and keys on axes that are common to all steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pandas as pd

from isoscope.core.table import SERIES_COLUMNS, make_table
from isoscope.studies.training_dynamics.common_basis import Basis, HeadSums, common_basis
from isoscope.studies.training_dynamics.suite_measures import BASES, NAN, Gathered, MeasuredSuite, Place, Points


def bases(sums: tuple[HeadSums, HeadSums], *, centred: bool) -> dict[str, Basis]:
    """The bases of a layer's heads, by the end of their series' names."""
    queries, keys = sums
    parts = dict(zip(BASES, (queries + keys, queries, keys), strict=True))
    found = {name: common_basis(part, queries) for name, part in parts.items()}
    return found | ({f"{name}_centred": common_basis(part, queries, centred=True) for name, part in parts.items()} if centred else {})


def mean_series(suite: MeasuredSuite, seen: Gathered, *, centred: bool) -> Iterator[Points]:
    """Where Q̄ and K̄ are at each step: on the first two components of each basis, and along each of the first eight."""
    for (seed, place), sums in seen.sums.items():
        steps = [step for step in suite.steps_of(seed) if (seed, step) in seen.means[place]]
        pairs = [seen.means[place][seed, step] for step in steps]
        for name, basis in bases(sums, centred=centred).items():
            for side, kind in enumerate(("query", "key")):
                at = basis.coordinates(np.stack([pair[side] for pair in pairs], axis=1))  # (h, steps, c)
                h, _, c = at.shape
                where = {"seed": seed, "stack": place.stack, "layer": place.layer, "kind": kind}
                axes = {"head": np.arange(h)[:, None], "step": np.array(steps)[None]}
                if c > 1:
                    pair = {"x": at[:, :, 0], "y": at[:, :, 1], "weight": basis.parts[:, :2].sum(1)[:, None]}
                    yield _flat(where | {"name": f"mean_in_{name}"}, axes | pair)
                axes = {axis: values[:, :, None] for axis, values in axes.items()}
                along = {"x": np.arange(1, c + 1)[None, None], "y": at, "weight": basis.parts[:, None]}
                yield _flat(where | {"name": f"mean_along_{name}"}, axes | along)


def cloud_series(suite: MeasuredSuite, seen: Gathered, *, centred: bool) -> Iterator[Points]:
    """A few queries and keys of the chosen heads at each step, on the first two components of each basis."""
    made: dict[Place, dict[str, Basis]] = {}
    for (head, step), pair in seen.clouds.items():
        if head.place not in made:
            made[head.place] = bases(seen.sums[suite.main, head.place], centred=centred)
        for name, every in made[head.place].items():
            basis = every.head(head.head)
            for kind, points in zip(("query", "key"), pair, strict=True):
                at = basis.coordinates(points[None])[0]
                if at.shape[1] < 2:
                    continue
                where = {"seed": suite.main, "stack": head.place.stack, "layer": head.place.layer, "kind": kind, "head": head.head}
                numbers = {"x": at[:, 0], "y": at[:, 1], "weight": basis.parts[0, :2].sum()[None]}
                yield _flat(where | {"name": f"cloud_in_{name}", "step": step}, numbers)


def _flat(where: Points, axes: Points) -> Points:
    """Arrays that fit each other, a row a number."""
    return where | {name: array.ravel() for name, array in zip(axes, np.broadcast_arrays(*axes.values()), strict=True)}


def as_series(suite: MeasuredSuite, parts: Iterable[Points]) -> pd.DataFrame:
    """All series as one table: made column by column, as there are many parts of few rows each."""
    full = [suite.columns | {"policy": suite.policy} | part for part in parts if len(part["y"])]
    if not full:
        return make_table([], SERIES_COLUMNS)
    columns = {name: np.concatenate([_column(part, name, kind) for part in full]) for name, kind in SERIES_COLUMNS.items()}
    return pd.DataFrame(columns).astype(SERIES_COLUMNS)


def _column(part: Points, name: str, kind: str) -> np.ndarray:
    """A column of one part, a value a point; what the part does not say is missing."""
    value, text = part.get(name), kind == "string"
    missing = None if text else NAN
    return np.broadcast_to(np.asarray(missing if value is None else value, dtype=object if text else np.float64), len(part["y"]))
