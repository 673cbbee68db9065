"""From statistics to the two tables: every metric that can be had, under every policy."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from isoscope.core import token_slices as slices
from isoscope.core.bounded import parsed_object
from isoscope.core.errors import IsoscopeError
from isoscope.core.number import Number
from isoscope.core.site import ATTENTION_ROW_KINDS, Site
from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, tidy
from isoscope.metrics import curves, metrics, profiles, registry
from isoscope.statistics.cloud import Cloud
from isoscope.statistics.clouds import Clouds
from isoscope.statistics.declaration import AnyCloud
from isoscope.statistics.kept import Kept, Statistics, filled
from isoscope.statistics.metric import Curve, Metric
from isoscope.statistics.profile import LayerEstimate, Profile, shared_documents
from isoscope.statistics.site_statistics import SiteStatistics


def default_metrics() -> list[str]:
    """The names of the metrics and profiles that are computed without being named."""
    entries: list[Metric | Profile] = [*metrics(), *profiles()]
    return [entry.name for entry in entries if not entry.on_request]


def numbers(cloud: AnyCloud, names: list[str] | None = None) -> dict[str, Any]:
    """Every metric of a cloud that it kept enough for, by name: those that are named, or all but those that are to be named."""
    wanted = [m for m in metrics() if not m.on_request]
    if names is not None:
        entries = [registry[name] for name in names]
        wanted = [entry for entry in entries if isinstance(entry, Metric)]
        for entry in entries:
            if isinstance(entry, Profile):
                raise IsoscopeError(f"{entry.name} is a number of a whole stack, not of one matrix; measure a model.")
    return {metric.name: metric(cloud) for metric in wanted if metric.available(cloud)}


def tables(
    sites: Statistics,
    columns: dict[str, Any],
    spec: dict[str, Any],
    *,
    names: list[str] | None = None,
    layers: str = "all",
    progress: Callable[[], None] = lambda: None,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The table and the series of one cell: of metrics, profiles and series those that are named, or all but those on request.

    Policies that choose the same points are computed once. `layers`: which were measured, as `--layers` has it; of a part of a stack no
    profile is known.
    """
    rows: list[dict[str, Any]] = []
    points: list[dict[str, Any]] = []
    clouds = Clouds(sites)
    own = None if names is None else [name for name in names if isinstance(registry[name], Metric)]
    stacks = Stacks(sites, names, layers)
    for site, kept in sites.items():
        choices = {policy: _chosen(kept, policy) for policy in slices.policies_for(kept.names)}
        done: dict[tuple[str, ...], list[Found]] = {(): []}
        for policy, chosen in choices.items():
            if chosen not in done:
                done[chosen] = []
                for head, cloud in clouds.of(site, policy):
                    level = spec.get("activation_nulls", {}).get(site.label)
                    values = {} if own == [] else _behind(numbers(cloud, own), level)
                    done[chosen].append(Found(head, values, _curves(site, head, policy, cloud, names)))
                    stacks.see(site, cloud, [name for name, other in choices.items() if other == chosen])
            where = columns | {"stack": site.stack, "kind": site.kind, "layer": site.layer, "policy": policy}
            said = _said(spec, policy, chosen)
            for found in done[chosen]:
                at = where | {"head": found.head}
                rows += [at | {"metric": name, "spec": _noted(said, value), **value.as_dict()} for name, value in found.values.items()]
                points += [
                    at | {"name": name, "x": x, "y": y, "weight": weight}
                    for name, curve in found.curves.items()
                    for x, y, weight in zip(*curve, strict=True)
                ]
        progress()
    for stack, policy, name, value in stacks.numbers():
        where = columns | {"stack": stack, "kind": "hidden", "policy": policy}
        said = _said(spec, policy, stacks.slices[stack, policy])
        rows.append(where | {"metric": name, "spec": _noted(said, value), **value.as_dict()})
    return tidy(rows, TABLE_COLUMNS), tidy(points, SERIES_COLUMNS)


@dataclass(frozen=True)
class Found:
    """All that was computed of one cloud."""

    head: int | None
    values: dict[str, Number]
    curves: dict[str, Curve]


@dataclass
class Stacks:
    """The profiles of each stack, put together from what is kept of each layer while its cloud is there: no two clouds need be held."""

    sites: Statistics
    names: list[str] | None
    layers: str = "all"
    slices: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    """stack, policy: the slices that hold points in any of the stack's blocks."""

    def __post_init__(self) -> None:
        chosen = profiles() if self.names is None else [registry[name] for name in self.names]
        self._wanted = [p for p in chosen if isinstance(p, Profile) and (self.names is not None or not p.on_request)]
        self._estimates: dict[tuple[str, str, str], dict[int, LayerEstimate]] = {}
        self._documents: dict[tuple[str, str], np.ndarray] = {}

    def see(self, site: Site, cloud: AnyCloud, policies: list[str]) -> None:
        """Keep what the profiles need of one layer, whose cloud is the same under these policies."""
        if not is_block(site) or not isinstance(cloud, Cloud):
            return
        for policy in policies:
            for profile in self._wanted:
                if profile.available(cloud):
                    estimate = profile.estimate_layer(cloud, self._shared(site.stack, policy) if cloud.has("sample") else None)
                    self._estimates.setdefault((site.stack, policy, profile.name), {})[site.layer or 0] = estimate
                    held = self.slices.get((site.stack, policy), ())
                    more = tuple(name for name in _chosen(self.sites[site], policy) if name not in held)
                    self.slices[site.stack, policy] = held + more

    def numbers(self) -> list[tuple[str, str, str, Number]]:
        """Every stack, policy, profile and its number."""
        by_name = {profile.name: profile for profile in self._wanted}
        last = {site.stack: site.layer or 0 for site in sorted(filter(is_block, self.sites), key=lambda site: site.layer or 0)}
        found = []
        for (stack, policy, name), estimates in self._estimates.items():
            value = by_name[name].combine_layers(estimates, last[stack])
            if self.layers != "all":
                value = Number(np.nan, n=value.n, d=value.d, note=f"needs every block, and only the layers {self.layers} were measured")
            found.append((stack, policy, name, value))
        return found

    def _shared(self, stack: str, policy: str) -> np.ndarray:
        """The documents that the samples of all blocks of a stack have under a policy."""
        if (stack, policy) not in self._documents:
            units = []
            for site, kept in self.sites.items():
                if site.stack == stack and is_block(site) and isinstance(kept, SiteStatistics) and kept.sample is not None:
                    codes = [kept.names.index(name) for name in _chosen(kept, policy)]
                    units.append(kept.sample.unit[np.isin(kept.sample.slice, codes)])
            self._documents[stack, policy] = shared_documents(units)
        return self._documents[stack, policy]


def is_block(site: Site) -> bool:
    """Whether a site is the state that leaves a block, which is what a profile is made of."""
    return site.kind == "hidden" and (site.layer or 0) > 0 and site.head is None


def _chosen(kept: Kept, policy: str) -> tuple[str, ...]:
    """The slices of a policy that hold points."""
    held = filled(kept)
    return tuple(name for name in slices.slices_of_policy(policy, kept.names) if name in held)


def _said(spec: dict[str, Any], policy: str, chosen: tuple[str, ...]) -> str:
    """The column `spec` of rows under a policy."""
    said = {key: value for key, value in spec.items() if key != "activation_nulls"} | {"policy": policy, "slices": list(chosen)}
    return json.dumps(said, sort_keys=True, ensure_ascii=False)


def _curves(site: Site, head: int | None, policy: str, cloud: AnyCloud, names: list[str] | None) -> dict[str, Curve]:
    """The series of a cloud: those that are named, or all but those on request.

    Heads have none of their own, for there are hundreds; scores are counted over all rows, under no policy.
    """
    if head is not None or (site.kind in ATTENTION_ROW_KINDS and policy != "all"):
        return {}
    wanted = [curve for curve in curves() if (not curve.on_request if names is None else curve.name in names)]
    return {curve.name: curve(cloud) for curve in wanted if curve.available(cloud)}


def _behind(values: dict[str, Any], level: float | None) -> dict[str, Any]:
    """Cosines at a site behind an activation, and the score made of them, with the null of independent features behind that activation."""
    if level is None:
        return values
    said = "null of independent features behind this activation"
    nulls = dict.fromkeys(("mean_cosine", "between_cosine", "within_cosine"), level) | {"isotropy_score": 1 - level}
    return values | {
        name: Number(
            value, n=value.n, d=value.d, low=value.low, high=value.high, null=nulls[name], note=said, interval_about=value.interval_about
        )
        for name, value in values.items()
        if name in nulls
    }


def _noted(spec: str, value: Any) -> str:
    return json.dumps(parsed_object(spec) | {"note": value.note}, sort_keys=True, ensure_ascii=False) if value.note else spec
