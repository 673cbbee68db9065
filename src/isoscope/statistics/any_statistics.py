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

SETTINGS = ("sample.k", "e")
"""Parts of a state that are settings. The names of slices are settings too."""


def state_of(statistics: AnyStatistics, *, sample: bool = True) -> dict[str, np.ndarray]:
    """Return everything as arrays, by name."""
    return statistics.state() if isinstance(statistics, AttentionStatistics) else statistics.state(sample=sample)


def from_state(kind: str, state: dict[str, np.ndarray]) -> AnyStatistics:
    """Return the inverse of `state_of`, for a site of this kind."""
    if kind in ATTENTION_ROW_KINDS:
        return AttentionStatistics.from_state(state)
    return Heads.from_state(state) if kind in QUERY_KEY_KINDS else SiteStatistics.from_state(state)


def fits(state: dict[str, np.ndarray], empty: dict[str, np.ndarray]) -> bool:
    """Return whether a state may belong to statistics whose empty state is `empty`: the same slices, widths and settings."""

    def alike(name: str, first: np.ndarray) -> bool:
        array = state.get(name)
        if array is None:
            return 0 in first.shape  # points that were kept one by one, and have become a matrix since
        if array.dtype != first.dtype or array.ndim != first.ndim:
            return False
        if not all(size == before or not before for size, before in zip(array.shape, first.shape, strict=True)):
            return False
        if name.startswith("moments."):  # counts are d, n and zeros, and those of second moments n and d: only d must agree
            at = 0 if name.endswith(".counts") else 1 if name.endswith(".n") else None
            return at is None or np.array_equal(array[..., at], first[..., at])
        return not (name in SETTINGS or name.startswith("slices.")) or np.array_equal(array, first)

    return all(alike(name, first) for name, first in empty.items())


def layout_of(statistics: AnyStatistics) -> Layout:
    """Return what two streams must have in common to be merged or added up."""
    if isinstance(statistics, SiteStatistics):
        return SiteStatistics, 1, statistics.d, statistics.names
    return type(statistics), statistics.h, statistics.e, statistics.names


def merge_statistics(a: AnyStatistics, b: AnyStatistics) -> AnyStatistics:
    """Return the statistics of both streams, which are of one kind; neither is changed."""
    merged: AnyStatistics = type(a).merge(a, b)  # type: ignore[arg-type]
    return merged
