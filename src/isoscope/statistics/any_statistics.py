"""The statistics of a site of any kind: of points, of the heads of queries or keys, or of rows of attention."""

from __future__ import annotations

import numpy as np

from isoscope.core.site import ATTENTION_ROW_KINDS, QUERY_KEY_KINDS, Site
from isoscope.statistics.attention_statistics import AttentionStatistics
from isoscope.statistics.head_statistics import Heads
from isoscope.statistics.site_statistics import SiteStatistics

AnyStatistics = SiteStatistics | Heads | AttentionStatistics
Statistics = dict[Site, AnyStatistics]
Layout = tuple[type, int, int, list[str]]
"""The kind of statistics, the number of heads, their width, and the slices."""


def state_of(statistics: AnyStatistics, *, sample: bool = True) -> dict[str, np.ndarray]:
    """Return everything as arrays, by name."""
    return statistics.state() if isinstance(statistics, AttentionStatistics) else statistics.state(sample=sample)


def from_state(kind: str, state: dict[str, np.ndarray]) -> AnyStatistics:
    """Return the inverse of `state_of`, for a site of this kind."""
    if kind in ATTENTION_ROW_KINDS:
        return AttentionStatistics.from_state(state)
    return Heads.from_state(state) if kind in QUERY_KEY_KINDS else SiteStatistics.from_state(state)


def layout_of(statistics: AnyStatistics) -> Layout:
    """Return what two streams must have in common to be merged or added up."""
    if isinstance(statistics, SiteStatistics):
        return SiteStatistics, 1, statistics.d, statistics.names
    return type(statistics), statistics.h, statistics.e, statistics.names


def merge_statistics(a: AnyStatistics, b: AnyStatistics) -> AnyStatistics:
    """Return the statistics of both streams, which are of one kind; neither is changed."""
    merged: AnyStatistics = type(a).merge(a, b)  # type: ignore[arg-type]
    return merged
