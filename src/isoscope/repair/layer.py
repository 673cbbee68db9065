"""From the statistics of a run to the cloud of one layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from isoscope.core.site import Site
from isoscope.repair.errors import RepairError
from isoscope.statistics.cloud import Cloud
from isoscope.statistics.site_statistics import SiteStatistics


@runtime_checkable
class HasStatistics(Protocol):
    """An open run, as far as repair knows one: how runs lie on disk is not its business."""

    def statistics(self, model: str | None = None) -> Mapping[Site, SiteStatistics]:
        """The statistics of a model of the run by site; of the only one where none is named."""


def layer_cloud(sites: Mapping[Site, SiteStatistics], *, layer: int | None, stack: str | None, kind: str, policy: str) -> Cloud:
    """The points of one site under a policy; an error that lists what there is where no site, or more than one, is meant."""
    alike = [site for site in sites if site.kind == kind and site.head is None and stack in (None, site.stack)]
    found = [site for site in alike if site.layer == layer]
    if len(found) > 1:
        stacks = ", ".join(sorted({site.stack for site in found}))
        raise RepairError(f"Several stacks have {kind} layer {layer}: {stacks}; name one with stack=.")
    if not found:
        known = ", ".join(site.label for site in sorted(alike or sites, key=lambda site: site.order))
        at = ".".join(str(part) for part in (stack or "*", kind, layer) if part is not None)
        raise RepairError(f"The run has no statistics at {at}; it has {known or 'none'}.")
    cloud = Cloud.of(sites[found[0]], policy)
    if cloud is None:
        raise RepairError(f"The policy {policy!r} leaves no points at {found[0].label}; choose another.")
    return cloud
