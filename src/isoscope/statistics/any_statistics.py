"""What is kept of a site, whatever its kind: points, the heads of queries or keys, or rows of attention."""

from __future__ import annotations

import numpy as np

from isoscope.core.site import ATTENTION_ROW_KINDS, QUERY_KEY_KINDS, Site
from isoscope.statistics.attention_statistics import AttentionStatistics
from isoscope.statistics.head_statistics import Heads
from isoscope.statistics.site_statistics import SiteStatistics

Kept = SiteStatistics | Heads | AttentionStatistics
Statistics = dict[Site, Kept]
Layout = tuple[type, int, int, list[str]]
"""The kind of statistics, the number of heads, their width, and the slices."""


def state_of(kept: Kept, *, sample: bool = True) -> dict[str, np.ndarray]:
    """Everything as arrays, by name; those of heads have the heads as their first axis."""
    if isinstance(kept, AttentionStatistics):
        return kept.state()
    if isinstance(kept, SiteStatistics):
        return kept.state(sample=sample)
    parts = [part.state(sample=sample) for part in kept.split()]
    return {name: np.stack([part[name] for part in parts]) for name in parts[0]}


SETTINGS = ("sample.k", "e")
"""Parts of a state that say how it is kept, beside the names of its slices."""


def from_state(kind: str, state: dict[str, np.ndarray]) -> Kept:
    """The inverse of `state_of`, for a site of this kind."""
    if kind in ATTENTION_ROW_KINDS:
        return AttentionStatistics.from_state(state)
    if kind not in QUERY_KEY_KINDS:
        return SiteStatistics.from_state(state)
    heads = len(next(iter(state.values())))
    return Heads.joined([SiteStatistics.from_state({name: array[j] for name, array in state.items()}) for j in range(heads)])


def fits(state: dict[str, np.ndarray], empty: dict[str, np.ndarray]) -> bool:
    """Whether a state may be of what `empty` is the state of before anything was added: the same slices, widths and numbers kept."""

    def alike(name: str, first: np.ndarray) -> bool:
        array = state.get(name)
        if array is None:
            return 0 in first.shape  # points that have become a matrix since
        if array.dtype != first.dtype or array.ndim != first.ndim:
            return False
        if not all(size == before or not before for size, before in zip(array.shape, first.shape, strict=True)):
            return False
        if name.startswith("moments."):  # counts are d, n and zeros; of second moments n and d
            at = 0 if name.endswith(".counts") else 1 if name.endswith(".n") else None
            return at is None or np.array_equal(array[..., at], first[..., at])
        return not (name in SETTINGS or name.startswith("slices.")) or np.array_equal(array, first)

    return all(alike(name, first) for name, first in empty.items())


def layout_of(kept: Kept) -> Layout:
    """What two streams must have in common to be merged or added up."""
    if isinstance(kept, SiteStatistics):
        return SiteStatistics, 1, kept.d, kept.names
    return type(kept), kept.h, kept.e, kept.names


def merged(a: Kept, b: Kept) -> Kept:
    """The statistics of both streams; neither is changed."""
    if isinstance(a, Heads) and isinstance(b, Heads):
        return Heads.joined([one.merge(other) for one, other in zip(a.split(), b.split(), strict=True)])
    if isinstance(a, AttentionStatistics) and isinstance(b, AttentionStatistics):
        return a.merge(b)
    assert isinstance(a, SiteStatistics)
    assert isinstance(b, SiteStatistics)
    return a.merge(b)


def filled(kept: Kept) -> list[str]:
    """The slices that hold points or rows."""
    if isinstance(kept, Heads):
        held = kept.counts[0].sum((1, 2)) > 0
        return [name for name, any_ in zip(kept.names, held, strict=True) if any_]
    return kept.filled
