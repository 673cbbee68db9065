"""The clouds of a measurement: one for each site, head and token policy."""

from __future__ import annotations

from collections.abc import Iterator

from isoscope.core.site import Site
from isoscope.estimation.attention_cloud import AttentionCloud
from isoscope.estimation.cloud import Cloud
from isoscope.statistics.any_statistics import Statistics
from isoscope.statistics.head_statistics import Heads
from isoscope.statistics.site_statistics import SiteStatistics


class Clouds:
    """The clouds of every site under any policy; what heads share is taken apart once."""

    def __init__(self, sites: Statistics) -> None:
        self.sites = sites
        self._split: tuple[tuple[Site, ...], dict[Site, list[SiteStatistics]]] = ((), {})

    def of(self, site: Site, policy: str) -> Iterator[tuple[int | None, Cloud | AttentionCloud]]:
        """Each cloud with its head: one without of a site that has no heads; of attention first that of all heads together."""
        kept = self.sites[site]
        found: list[tuple[int | None, Cloud | AttentionCloud | None]]
        if isinstance(kept, SiteStatistics):
            found = [(site.head, Cloud.of(kept, policy))]
        elif isinstance(kept, Heads):
            found = [(j, Cloud.of(part, policy)) for j, part in enumerate(self._heads(site, site)[site])]
        else:
            queries, keys = self._pair(site)
            found = [(None, AttentionCloud.of(kept, policy))]
            for j in range(kept.h):
                pair = (queries[j], keys[j * len(keys) // kept.h]) if queries and keys else (None, None)
                found.append((j, AttentionCloud.of(kept, policy, j, queries=pair[0], keys=pair[1])))
        return ((head, cloud) for head, cloud in found if cloud is not None)

    def _pair(self, site: Site) -> tuple[list[SiteStatistics], list[SiteStatistics]]:
        """The heads' queries and keys behind rows of attention, where they were kept."""
        before = {"attention": "", "cross_attention": "cross_"}.get(site.kind)
        if before is None:
            return [], []
        query, key = (Site(site.stack, before + kind, site.layer) for kind in ("query", "key"))
        split = self._heads(query, key)
        return split.get(query, []), split.get(key, [])

    def _heads(self, *wanted: Site) -> dict[Site, list[SiteStatistics]]:
        """Heads taken apart; only the last asked for are held."""
        if self._split[0] != wanted:
            self._split = wanted, {site: kept.split() for site in wanted if isinstance(kept := self.sites.get(site), Heads)}
        return self._split[1]
