"""Compute the two tables of a cell from its statistics: every available metric, under every policy."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from isoscope.core import site as slices
from isoscope.core.errors import IsoscopeError
from isoscope.core.number import Number
from isoscope.core.site import ATTENTION_ROW_KINDS, Site
from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, make_table
from isoscope.estimation.cloud import Cloud
from isoscope.estimation.metric import AnyCloud, Curve, Metric
from isoscope.estimation.profile import LayerEstimate, Profile, shared_documents
from isoscope.estimation.site_clouds import Clouds
from isoscope.metrics import curves, metrics, profiles, registry
from isoscope.statistics.any_statistics import AnyStatistics, Statistics
from isoscope.statistics.site_statistics import SiteStatistics
from isoscope.trust.safe_io import parse_object


def default_metrics() -> list[str]:
    """The names of the metrics and profiles that are computed by default: all but those on request."""
    entries: list[Metric | Profile] = [*metrics(), *profiles()]
    return [entry.name for entry in entries if not entry.on_request]


def numbers(cloud: AnyCloud, names: list[str] | None = None) -> dict[str, Any]:
    """The metrics of a cloud, by name: those that are named, or the default ones, as far as the cloud kept enough for them."""
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
    """The table and the series of one cell: the metrics, profiles and series that are named, or all but those on request.

    `layers`: those that were measured, as in `--layers`. If they are not all, profiles are undefined. `progress` is called after each site.
    """
    rows: list[dict[str, Any]] = []
    points: list[dict[str, Any]] = []
    clouds = Clouds(sites)
    metric_names = None if names is None else [name for name in names if isinstance(registry[name], Metric)]
    stacks = Stacks(sites, names, layers)
    for site, kept in sites.items():
        choices = {policy: _filled_slices(kept, policy) for policy in slices.policies_for(kept.names)}
        # Policies often choose the same slices, and then the same points: each choice is computed once.
        done: dict[tuple[str, ...], list[CloudResults]] = {(): []}
        for policy, chosen in choices.items():
            if chosen not in done:
                done[chosen] = []
                for head, cloud in clouds.of(site, policy):
                    level = spec.get("activation_nulls", {}).get(site.label)
                    values = {} if metric_names == [] else _with_activation_null(numbers(cloud, metric_names), level)
                    done[chosen].append(CloudResults(head, values, _curves(site, head, policy, cloud, names)))
                    stacks.add(site, cloud, [name for name, other in choices.items() if other == chosen])
            where = columns | {"stack": site.stack, "kind": site.kind, "layer": site.layer, "policy": policy}
            settings = _settings_text(spec, policy, chosen)
            for results in done[chosen]:
                at = where | {"head": results.head}
                rows += [
                    at | {"metric": name, "spec": _add_note(settings, value), **value.as_dict()} for name, value in results.values.items()
                ]
                points += [
                    at | {"name": name, "x": x, "y": y, "weight": weight}
                    for name, curve in results.curves.items()
                    for x, y, weight in zip(*curve, strict=True)
                ]
        progress()
    # Profiles come last: they need every block of a stack, and sites may come in any order.
    for stack, policy, name, value in stacks.numbers():
        where = columns | {"stack": stack, "kind": "hidden", "policy": policy}
        settings = _settings_text(spec, policy, stacks.slices[stack, policy])
        rows.append(where | {"metric": name, "spec": _add_note(settings, value), **value.as_dict()})
    return make_table(rows, TABLE_COLUMNS), make_table(points, SERIES_COLUMNS)


@dataclass(frozen=True)
class CloudResults:
    """The metrics and series of one cloud."""

    head: int | None
    values: dict[str, Number]
    curves: dict[str, Curve]


@dataclass
class Stacks:
    """Collects the profiles of each stack. A cloud is reduced to its level as it comes, so that memory holds one cloud at a time."""

    sites: Statistics
    names: list[str] | None
    layers: str = "all"
    slices: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    """By stack and policy, the slices that hold points in any block of the stack."""

    def __post_init__(self) -> None:
        chosen = profiles() if self.names is None else [registry[name] for name in self.names]
        self._wanted = [p for p in chosen if isinstance(p, Profile) and (self.names is not None or not p.on_request)]
        self._estimates: dict[tuple[str, str, str], dict[int, LayerEstimate]] = {}
        self._documents: dict[tuple[str, str], np.ndarray] = {}

    def add(self, site: Site, cloud: AnyCloud, policies: list[str]) -> None:
        """Keep what the profiles need from one layer, whose cloud is the same under these policies."""
        if not is_block(site) or not isinstance(cloud, Cloud):
            return
        for policy in policies:
            for profile in self._wanted:
                if profile.available(cloud):
                    estimate = profile.estimate_layer(cloud, self._shared_documents(site.stack, policy) if cloud.has("sample") else None)
                    self._estimates.setdefault((site.stack, policy, profile.name), {})[site.layer or 0] = estimate
                    known = self.slices.get((site.stack, policy), ())
                    more = tuple(name for name in _filled_slices(self.sites[site], policy) if name not in known)
                    self.slices[site.stack, policy] = known + more

    def numbers(self) -> list[tuple[str, str, str, Number]]:
        """Stack, policy, name and number of every profile."""
        by_name = {profile.name: profile for profile in self._wanted}
        last = {site.stack: site.layer or 0 for site in sorted(filter(is_block, self.sites), key=lambda site: site.layer or 0)}
        collected = []
        for (stack, policy, name), estimates in self._estimates.items():
            value = by_name[name].combine_layers(estimates, last[stack])
            # A profile of some blocks would look like one of a shallower model, so it gets no value.
            if self.layers != "all":
                value = Number(np.nan, n=value.n, d=value.d, note=f"needs every block, and only the layers {self.layers} were measured")
            collected.append((stack, policy, name, value))
        return collected

    def _shared_documents(self, stack: str, policy: str) -> np.ndarray:
        """The documents that the samples of all blocks of a stack have in common under a policy."""
        if (stack, policy) not in self._documents:
            units = []
            for site, kept in self.sites.items():
                if site.stack == stack and is_block(site) and isinstance(kept, SiteStatistics) and kept.sample is not None:
                    codes = [kept.names.index(name) for name in _filled_slices(kept, policy)]
                    units.append(kept.sample.unit[np.isin(kept.sample.slice, codes)])
            self._documents[stack, policy] = shared_documents(units)
        return self._documents[stack, policy]


def is_block(site: Site) -> bool:
    """Whether a site is the output of a block; profiles are made of these."""
    return site.kind == "hidden" and (site.layer or 0) > 0 and site.head is None


def _filled_slices(kept: AnyStatistics, policy: str) -> tuple[str, ...]:
    """The slices of a policy that hold points."""
    held = kept.slices_in_use
    return tuple(name for name in slices.slices_of_policy(policy, kept.names) if name in held)


def _settings_text(spec: dict[str, Any], policy: str, chosen: tuple[str, ...]) -> str:
    """The column `spec` of rows under a policy: all settings as JSON."""
    settings = {key: value for key, value in spec.items() if key != "activation_nulls"} | {"policy": policy, "slices": list(chosen)}
    return json.dumps(settings, sort_keys=True, ensure_ascii=False)


def _curves(site: Site, head: int | None, policy: str, cloud: AnyCloud, names: list[str] | None) -> dict[str, Curve]:
    """The series of a cloud: those that are named, or all but those on request."""
    # Heads have no series: there are hundreds of heads. The histogram of scores is over all attention rows, whatever the policy.
    if head is not None or (site.kind in ATTENTION_ROW_KINDS and policy != "all"):
        return {}
    wanted = [curve for curve in curves() if (not curve.on_request if names is None else curve.name in names)]
    return {curve.name: curve(cloud) for curve in wanted if curve.available(cloud)}


def _with_activation_null(values: dict[str, Any], level: float | None) -> dict[str, Any]:
    """Values in which cosines, and the isotropy score, have the null of independent features behind an activation."""
    if level is None:
        return values
    # Behind a ReLU no coordinate is negative, so that even independent features have a mean cosine far above 0.
    note = "null of independent features behind this activation"
    nulls = dict.fromkeys(("mean_cosine", "between_cosine", "within_cosine"), level) | {"isotropy_score": 1 - level}
    return values | {
        name: Number(
            value, n=value.n, d=value.d, low=value.low, high=value.high, null=nulls[name], note=note, interval_about=value.interval_about
        )
        for name, value in values.items()
        if name in nulls
    }


def _add_note(spec: str, value: Any) -> str:
    """The settings with the note of a number, if it has one."""
    return json.dumps(parse_object(spec) | {"note": value.note}, sort_keys=True, ensure_ascii=False) if value.note else spec
