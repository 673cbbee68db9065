"""All that is kept of one site: moments by slice, groups and a sample over the slices."""

from __future__ import annotations

import numpy as np

from isoscope.statistics.jackknife_groups import Groups
from isoscope.statistics.moments import Moments
from isoscope.statistics.sample import Sample

VERSION = 4
"""Goes up when a statistic's meaning changes; cells of another version are computed anew."""


class SiteStatistics:
    """The statistics of one site. A token policy is applied after the pass: `Cloud.of(statistics, policy)` joins its slices."""

    def __init__(self, d: int, names: list[str], *, second: bool = True, cosine: bool = False, sample: int = 4096) -> None:
        self.d, self.names = d, list(names)
        self.moments = [Moments(d, second=second, cosine=cosine) for _ in names]
        self.groups: Groups | None = Groups(d, len(names))
        self.sample: Sample | None = Sample(d, sample) if sample else None

    @property
    def filled(self) -> list[str]:
        """The slices that hold points."""
        return [name for name, moments in zip(self.names, self.moments, strict=True) if moments.n]

    def merge(self, other: SiteStatistics) -> SiteStatistics:
        """The statistics of both streams; neither is changed."""
        merged = SiteStatistics(self.d, self.names, second=False, sample=0)
        merged.moments = [a.merge(b) for a, b in zip(self.moments, other.moments, strict=True)]
        merged.groups = self.groups.merge(other.groups) if self.groups is not None and other.groups is not None else None
        merged.sample = self.sample.merge(other.sample) if self.sample is not None and other.sample is not None else None
        return merged

    def state(self, *, sample: bool = True) -> dict[str, np.ndarray]:
        """Everything as arrays, by name."""
        state = {f"slices.{name}": np.array([i]) for i, name in enumerate(self.names)}
        for name, moments in zip(self.names, self.moments, strict=True):
            state |= {f"moments.{name}.{key}": value for key, value in moments.state().items()}
        for kind, part in (("groups", self.groups), ("sample", self.sample if sample else None)):
            if part is not None:
                state |= {f"{kind}.{key}": value for key, value in part.state().items()}
        return state

    @classmethod
    def from_state(cls, state: dict[str, np.ndarray]) -> SiteStatistics:
        """The inverse of `state`."""

        def under(prefix: str) -> dict[str, np.ndarray]:
            return {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}

        order = under("slices.")
        names = sorted(order, key=lambda name: int(order[name][0]))
        self = cls(int(under(f"moments.{names[0]}.")["counts"][0]), names, second=False, sample=0)
        self.moments = [Moments.from_state(under(f"moments.{name}.")) for name in names]
        groups, sample = under("groups."), under("sample.")
        self.groups = Groups.from_state(groups) if groups else None
        self.sample = Sample.from_state(sample) if sample else None
        return self
