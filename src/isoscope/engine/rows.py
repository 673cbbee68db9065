"""From statistics to the two tables: every metric that can be had, under every policy."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pandas as pd

from isoscope.core import slice as slices
from isoscope.core.number import Number
from isoscope.core.site import Site
from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, tidy
from isoscope.metrics import curves, metrics, registry
from isoscope.statistics.cloud import Cloud
from isoscope.statistics.metric import Metric
from isoscope.statistics.site_statistics import SiteStatistics


def numbers(cloud: Cloud, names: list[str] | None = None) -> dict[str, Any]:
    """Every metric of a cloud that it kept enough for, by name."""
    wanted = metrics() if names is None else [entry for name in names if isinstance(entry := registry[name], Metric)]
    return {metric.name: metric(cloud) for metric in wanted if metric.available(cloud)}


def tables(
    sites: dict[Site, SiteStatistics],
    columns: dict[str, Any],
    spec: dict[str, Any],
    *,
    names: list[str] | None = None,
    progress: Callable[[], None] = lambda: None,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The table and the series of one cell. Policies that choose the same points are computed once."""
    rows: list[dict[str, Any]] = []
    points: list[dict[str, Any]] = []
    for site, statistics in sites.items():
        done: dict[tuple[str, ...], tuple[dict[str, Any], dict[str, Any]]] = {}
        for policy in slices.policies_of(statistics.names):
            chosen = tuple(name for name in slices.select(policy, statistics.names) if name in statistics.filled)
            cloud = statistics.cloud(policy) if chosen and chosen not in done else None
            if cloud is not None:
                found = {curve.name: curve(cloud) for curve in curves() if names is None and curve.available(cloud)}
                done[chosen] = _behind(numbers(cloud, names), spec.get("activation_nulls", {}).get(site.label)), found
            if chosen not in done:
                continue
            where = columns | {"stack": site.stack, "kind": site.kind, "layer": site.layer, "head": site.head, "policy": policy}
            said = json.dumps(
                {key: value for key, value in spec.items() if key != "activation_nulls"} | {"policy": policy, "slices": list(chosen)},
                sort_keys=True,
                ensure_ascii=False,
            )
            values, found = done[chosen]
            rows += [where | {"metric": name, "spec": _noted(said, value), **value.as_dict()} for name, value in values.items()]
            points += [
                where | {"name": name, "x": x, "y": y, "weight": weight}
                for name, curve in found.items()
                for x, y, weight in zip(*curve, strict=True)
            ]
        progress()
    return tidy(rows, TABLE_COLUMNS), tidy(points, SERIES_COLUMNS)


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
