"""Series of queries and keys on axes that all steps share: the singular vectors of all queries and keys of a head, made from sums."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from isoscope.core.numerics import Floats
from isoscope.core.table import SERIES_COLUMNS, make_table
from isoscope.studies.training_dynamics.checkpoint_measures import HeadSums
from isoscope.studies.training_dynamics.gather import BASES, NAN, Gathered, MeasuredSuite, Place, Points

COMPONENTS = 8
"""The number of components of a basis that are stored."""
NOTHING = 1e-9
"""A mean whose coordinate is a smaller share of its length than this lies on no side of the origin."""


@dataclass(frozen=True)
class Basis:
    """The first components of each head: `vectors` (h, e, c) in columns, `parts` (h, c) of the sum of squares, and `centre` (h, e)."""

    vectors: Floats
    parts: Floats
    centre: Floats

    def coordinates(self, points: Floats) -> Floats:
        """(h, m, c) coordinates of points (h, m, e), or (h, c) of one point (h, e) per head."""
        if points.ndim == 2:
            return self.coordinates(points[:, None])[:, 0]
        return np.asarray((points - self.centre[:, None]) @ self.vectors)

    def head(self, j: int) -> Basis:
        """The basis of one head."""
        return Basis(self.vectors[j : j + 1], self.parts[j : j + 1], self.centre[j : j + 1])


def common_basis(sums: HeadSums, towards: HeadSums, *, centred: bool = False, components: int = COMPONENTS) -> Basis:
    """The right singular vectors of all vectors behind `sums`, and the share of the sum of squares that each carries.

    Uncentred as published, or around the mean of all vectors. The mean of `towards` lies on the positive side of each singular vector; if
    its coordinate is zero, the vector's own largest entry is positive.
    """
    # Singular vectors of the stacked vectors are eigenvectors of Σxxᵀ, so the vectors themselves are not needed.
    centre = sums.mean if centred else np.zeros_like(sums.total)
    outer = sums.outer - sums.n * centre[:, :, None] * centre[:, None, :]
    values, vectors = np.linalg.eigh((outer + outer.swapaxes(1, 2)) / 2)
    values, vectors = values[:, ::-1].clip(0), vectors[:, :, ::-1][:, :, :components]
    # A singular vector has no sign of its own. Without a rule, paths of two runs or of two bases could be mirrored.
    along = (towards.mean[:, None] @ vectors)[:, 0]
    peak = np.take_along_axis(vectors, np.abs(vectors).argmax(1)[:, None], 1)[:, 0]
    sided = np.abs(along) > NOTHING * np.linalg.norm(towards.mean, axis=1)[:, None]
    sign = np.where(np.where(sided, along, peak) < 0, -1.0, 1.0)
    whole = values.sum(1, keepdims=True)
    parts = np.divide(values, whole, out=np.zeros_like(values), where=whole > 0)[:, :components]
    return Basis(vectors * sign[:, None], parts, centre)


def make_bases(sums: tuple[HeadSums, HeadSums], *, centred: bool) -> dict[str, Basis]:
    """The bases of a layer's heads, by the ends of the names of their series."""
    queries, keys = sums
    parts = dict(zip(BASES, (queries + keys, queries, keys), strict=True))
    bases = {name: common_basis(part, queries) for name, part in parts.items()}
    return bases | ({f"{name}_centred": common_basis(part, queries, centred=True) for name, part in parts.items()} if centred else {})


def mean_series(suite: MeasuredSuite, seen: Gathered, *, centred: bool) -> Iterator[Points]:
    """Q̄ and K̄ at each step: on the first two components of each basis, and along each of the first eight."""
    for (seed, place), sums in seen.sums.items():
        steps = [step for step in suite.steps_of(seed) if (seed, step) in seen.means[place]]
        pairs = [seen.means[place][seed, step] for step in steps]
        for name, basis in make_bases(sums, centred=centred).items():
            for side, kind in enumerate(("query", "key")):
                at = basis.coordinates(np.stack([pair[side] for pair in pairs], axis=1))  # (h, steps, c)
                h, _, c = at.shape
                where = {"seed": seed, "stack": place.stack, "layer": place.layer, "kind": kind}
                axes = {"head": np.arange(h)[:, None], "step": np.array(steps)[None]}
                if c > 1:
                    pair = {"x": at[:, :, 0], "y": at[:, :, 1], "weight": basis.parts[:, :2].sum(1)[:, None]}
                    yield _flatten(where | {"name": f"mean_in_{name}"}, axes | pair)
                axes = {axis: values[:, :, None] for axis, values in axes.items()}
                along = {"x": np.arange(1, c + 1)[None, None], "y": at, "weight": basis.parts[:, None]}
                yield _flatten(where | {"name": f"mean_along_{name}"}, axes | along)


def cloud_series(suite: MeasuredSuite, seen: Gathered, *, centred: bool) -> Iterator[Points]:
    """A few queries and keys of the chosen heads at each step, on the first two components of each basis."""
    made: dict[Place, dict[str, Basis]] = {}
    for (head, step), pair in seen.clouds.items():
        if head.place not in made:
            made[head.place] = make_bases(seen.sums[suite.main, head.place], centred=centred)
        for name, every in made[head.place].items():
            basis = every.head(head.head)
            for kind, points in zip(("query", "key"), pair, strict=True):
                at = basis.coordinates(points[None])[0]
                if at.shape[1] < 2:
                    continue
                where = {"seed": suite.main, "stack": head.place.stack, "layer": head.place.layer, "kind": kind, "head": head.head}
                numbers = {"x": at[:, 0], "y": at[:, 1], "weight": basis.parts[0, :2].sum()[None]}
                yield _flatten(where | {"name": f"cloud_in_{name}", "step": step}, numbers)


def _flatten(where: Points, axes: Points) -> Points:
    """Broadcast arrays against each other and flatten them into columns with one row per number."""
    return where | {name: array.ravel() for name, array in zip(axes, np.broadcast_arrays(*axes.values()), strict=True)}


def as_series(suite: MeasuredSuite, parts: Iterable[Points]) -> pd.DataFrame:
    """All series as one table."""
    full = [suite.columns | {"policy": suite.policy} | part for part in parts if len(part["y"])]
    if not full:
        return make_table([], SERIES_COLUMNS)
    # Column by column: there are thousands of parts with a few rows each, and a frame per part would take minutes.
    columns = {name: np.concatenate([_column(part, name, kind) for part in full]) for name, kind in SERIES_COLUMNS.items()}
    return pd.DataFrame(columns).astype(SERIES_COLUMNS)


def _column(part: Points, name: str, kind: str) -> np.ndarray:
    """A column of one part, with one value per point, missing if the part lacks the column."""
    value, text = part.get(name), kind == "string"
    missing = None if text else NAN
    return np.broadcast_to(np.asarray(missing if value is None else value, dtype=object if text else np.float64), len(part["y"]))
