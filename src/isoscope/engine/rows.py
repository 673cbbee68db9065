"""From statistics to the two tables: every metric that can be had, under every policy."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from isoscope.core import slice as slices
from isoscope.core.number import Number
from isoscope.core.site import ROWS, Site
from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, tidy
from isoscope.metrics import curves, metrics, registry
from isoscope.statistics.kept import Clouds, Statistics, filled
from isoscope.statistics.metric import Curve, Measured, Metric


def numbers(cloud: Measured, names: list[str] | None = None) -> dict[str, Any]:
    """Every metric of a cloud that it kept enough for, by name."""
    wanted = metrics() if names is None else [entry for name in names if isinstance(entry := registry[name], Metric)]
    return {metric.name: metric(cloud) for metric in wanted if metric.available(cloud)}


def tables(
    sites: Statistics,
    columns: dict[str, Any],
    spec: dict[str, Any],
    *,
    names: list[str] | None = None,
    progress: Callable[[], None] = lambda: None,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The table and the series of one cell. Policies that choose the same points are computed once."""
    rows: list[dict[str, Any]] = []
    points: list[dict[str, Any]] = []
    clouds = Clouds(sites)
    for site, kept in sites.items():
        done: dict[tuple[str, ...], list[Found]] = {}
        for policy in slices.policies_of(kept.names):
            chosen = tuple(name for name in slices.select(policy, kept.names) if name in filled(kept))
            if chosen and chosen not in done:
                level = spec.get("activation_nulls", {}).get(site.label)
                done[chosen] = [
                    Found(head, _behind(numbers(cloud, names), level), {} if names else _curves(site, head, policy, cloud))
                    for head, cloud in clouds.of(site, policy)
                ]
            where = columns | {"stack": site.stack, "kind": site.kind, "layer": site.layer, "policy": policy}
            said = json.dumps(
                {key: value for key, value in spec.items() if key != "activation_nulls"} | {"policy": policy, "slices": list(chosen)},
                sort_keys=True,
                ensure_ascii=False,
            )
            for found in done.get(chosen, []):
                at = where | {"head": found.head}
                rows += [at | {"metric": name, "spec": _noted(said, value), **value.as_dict()} for name, value in found.values.items()]
                points += [
                    at | {"name": name, "x": x, "y": y, "weight": weight}
                    for name, curve in found.curves.items()
                    for x, y, weight in zip(*curve, strict=True)
                ]
        progress()
    return tidy(rows, TABLE_COLUMNS), tidy(points, SERIES_COLUMNS)


@dataclass(frozen=True)
class Found:
    """All that was computed of one cloud."""

    head: int | None
    values: dict[str, Number]
    curves: dict[str, Curve]


def _curves(site: Site, head: int | None, policy: str, cloud: Measured) -> dict[str, Curve]:
    """The series of a cloud. Heads have none of their own, for there are hundreds; scores are counted over all rows, under no policy."""
    if head is not None or (site.kind in ROWS and policy != "all"):
        return {}
    return {curve.name: curve(cloud) for curve in curves() if curve.available(cloud)}


def _behind(values: dict[str, Any], level: float | None) -> dict[str, Any]:
    """Cosines at a site behind an activation, with the null of independent features behind that activation."""
    if level is None:
        return values
    said = "null of independent features behind this activation"
    return values | {
        name: Number(value, n=value.n, d=value.d, low=value.low, high=value.high, null=level, note=said)
        for name, value in values.items()
        if name in ("mean_cosine", "between_cosine", "within_cosine")
    }


def _noted(spec: str, value: Any) -> str:
    return json.dumps(json.loads(spec) | {"note": value.note}, sort_keys=True, ensure_ascii=False) if value.note else spec
