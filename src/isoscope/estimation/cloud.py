"""The points of one site under one token policy, as the statistics know them: what a metric is a function of."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import Any, TypeVar

import numpy as np

from isoscope.core import site as slices
from isoscope.core.errors import IsoscopeError
from isoscope.core.number import Number
from isoscope.core.numerics import Floats
from isoscope.estimation.eigenvalues import Spectrum, isotropic_spectra
from isoscope.estimation.neighbours import Neighbours, neighbours
from isoscope.statistics.jackknife_groups import Groups, Totals
from isoscope.statistics.moments import Moments
from isoscope.statistics.sample import Sample
from isoscope.statistics.site_statistics import SiteStatistics

PARTS = ("directions", "sums", "second", "cosine", "groups", "sample", "neighbours")
"""What a metric may read: Σu; Σx, Σu² and norms; second moments of x, of u; groups of items; a sample, and neighbours within it."""

T = TypeVar("T")
REACH = 128
"""Above two neighbours, one search for so many serves all that ask for fewer."""


@dataclass
class Cloud:
    """Moments, groups and sample of one set of points. What several metrics share is computed once, here."""

    moments: Moments
    groups: Groups | None = None
    sample: Sample | None = None
    unit: float = 1.0
    """The length that counts as 1 in all sums: a power of two, other than 1 where squares would overflow or vanish."""
    duplicates: int | None = None
    """Rows of a whole matrix that repeat an earlier one; None where only the sample can tell."""
    _found: Neighbours | None = field(default=None, init=False, repr=False, compare=False)
    _shared: dict[Callable[[Cloud], Any], Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def of(cls, statistics: SiteStatistics, policy: str) -> Cloud | None:
        """The points of a site under a token policy; None if it leaves no point."""
        chosen = [statistics.names.index(name) for name in slices.slices_of_policy(policy, statistics.names)]
        chosen = [i for i in chosen if statistics.moments[i].n]
        if not chosen:
            return None
        moments = reduce(Moments.merge, [statistics.moments[i] for i in chosen])
        groups = statistics.groups.join(chosen) if statistics.groups is not None else None
        return cls(moments, groups, statistics.sample.join(chosen) if statistics.sample is not None else None)

    @property
    def n(self) -> int:
        """Points counted."""
        return self.moments.n

    @property
    def d(self) -> int:
        """Dimensions."""
        return self.moments.d

    def has(self, part: str) -> bool:
        """Whether this part of `PARTS` was kept."""
        if part in ("sample", "neighbours"):
            return self.sample is not None and len(self.sample) > 0
        if part == "groups":
            return self.groups is not None
        return part in ("directions", "sums") or getattr(self.moments, part, None) is not None

    def duplicates_note(self, sampled: int, fate: str) -> str:
        """How many exact duplicates there are in the sample and, where that is known, among all points; empty where there are none.

        >>> Cloud(Moments(2)).duplicates_note(12, "left out")
        '12 exact duplicates left out'
        """
        note = f"{sampled:,} exact duplicate{'s' if sampled > 1 else ''} {fate}" if sampled else ""
        if not self.duplicates or self.sample is None or len(self.sample) == self.n:
            return note
        return f"{note or 'no duplicates in the sample'} of {len(self.sample):,} points, {self.duplicates:,} among all {self.n:,}"

    @property
    def drawn(self) -> Sample:
        """The sample; an error that says what to do where none was kept."""
        if self.sample is None or not len(self.sample):
            raise IsoscopeError("This number needs a sample of points and none was kept; measure again with --sample 4096.")
        return self.sample

    def neighbours(self, k: int | None = None, *, progress: Callable[[int], None] = lambda rows: None) -> Neighbours:
        """The k nearest neighbours of each distinct point of the sample, or as many as one search gives: `REACH`, where there are so many.

        What was found once is kept.
        """
        found = self._found
        if found is None or found.distances.shape[1] < (min(REACH, len(found.kept) - 1) if k is None else k):
            reach = k if k is not None and k <= 2 else REACH  # two are had four times as fast, and are often all that is asked for
            found = self._found = neighbours(self.drawn.points, k or 1, reach=reach, progress=progress)
        return found if k is None else replace(found, distances=found.distances[:, :k], indices=found.indices[:, :k])

    def shared(self, function: Callable[[Cloud], T]) -> T:
        """What a function makes of this cloud, computed once: for metrics that share their work."""
        if function not in self._shared:
            self._shared[function] = function(self)
        found: T = self._shared[function]
        return found

    @property
    def totals(self) -> Totals:
        """The sums over all points; where groups were not kept, every point counts as an item of its own."""
        if self.groups is not None:
            return self.groups.totals
        m = self.moments
        n, alive, norm, norm2 = (np.asarray(x, dtype=np.float64) for x in (m.n, m.alive, m.norm, m.norm2))
        return Totals(n, alive, m.total, m.directions, norm, norm2, alive, alive, norm2, n)

    def grouped(
        self,
        estimate: Callable[[Totals], Floats],
        *,
        bounds: tuple[float, float] = (-np.inf, np.inf),
        transform: Callable[[Floats], Floats] = np.asarray,
    ) -> tuple[float, float]:
        """A 95 % interval of a function of sums, by the jackknife over groups of items, within the bounds of the metric.

        `transform` is an increasing function that is applied to the ends: an interval of a square becomes one of its root.
        """
        if self.groups is None:
            return np.nan, np.nan
        low, high = (float(transform(np.asarray(end))) for end in self.groups.interval(estimate))
        return max(low, bounds[0]), min(high, bounds[1])

    def spectrum(self, *, centred: bool = True) -> Spectrum:
        """The eigenvalues; an error that says what to do where second moments were not kept."""
        found = self._centred_spectrum if centred else self._uncentred_spectrum
        if found is None:
            why = (
                "needs at least two points"
                if self.n < 2
                else "needs second moments; above d = 2048 ask for them with --second-moments LAYERS"
            )
            raise IsoscopeError(f"A spectrum {why}.")
        return found

    @cached_property
    def _centred_spectrum(self) -> Spectrum | None:
        """The eigenvalues of the covariance."""
        return None if self.moments.second is None or self.n < 2 else Spectrum.of(self.moments.second, centred=True)

    @cached_property
    def _uncentred_spectrum(self) -> Spectrum | None:
        """The eigenvalues of Σxxᵀ/n."""
        return None if self.moments.second is None or self.n < 1 else Spectrum.of(self.moments.second, centred=False)

    @cached_property
    def _resampled(self) -> dict[tuple[bool, bytes | None], tuple[Floats, Floats] | None]:
        return {}

    def resampled(self, *, centred: bool = True, documents: np.ndarray | None = None) -> tuple[Floats, Floats] | None:
        """`Spectrum.resampled` of the sample, or of these documents of it; what was drawn once is kept.

        The draws depend on nothing but which documents there are: clouds with the same documents have the same ones.
        """
        key = centred, None if documents is None else documents.tobytes()
        if key not in self._resampled:
            points, unit = self.drawn.points, self.drawn.unit
            if documents is not None:
                among = np.isin(unit, documents)
                points, unit = points[among], unit[among]
            self._resampled[key] = self.spectrum(centred=centred).resampled(points, unit)
        return self._resampled[key]

    def _varies(self, centred: bool) -> bool:
        """Whether points differ, and so have a spectrum."""
        # What rounding leaves of equal points is none: 1e-28 of the squared length is a spread of 45 units in the last place.
        spectrum = self.spectrum(centred=centred)
        return spectrum.size > 0 and bool(spectrum.values.sum() > 1e-28 * self.moments.norm2 / self.n)

    def spectral_value(self, function: Callable[[Floats], Floats], *, centred: bool = True) -> float:
        """A function of the eigenvalues (last axis), exactly; NaN where all points are equal."""
        return float(function(self.spectrum(centred=centred).values)) if self._varies(centred) else np.nan

    def spectral_moves(
        self, function: Callable[[Floats], Floats], *, centred: bool = True, documents: np.ndarray | None = None
    ) -> Floats | None:
        """(draws,) how far bootstrap draws of the sample's documents, or of these of them, move a function of the eigenvalues.

        None without a sample, or with fewer than three documents.
        """
        drawn = self.resampled(centred=centred, documents=documents) if self.has("sample") else None
        if drawn is None or not drawn[0].sum() > 0:
            return None
        with np.errstate(invalid="ignore", divide="ignore"):  # of few documents a draw may be one of them, again and again
            return np.asarray(function(drawn[1]) - function(drawn[0]))

    def spectral(
        self, function: Callable[[Floats], Floats], *, centred: bool = True, bounds: tuple[float, float] = (-np.inf, np.inf)
    ) -> Number:
        """A function of the eigenvalues (last axis) as a number.

        The value is exact. The interval is a bootstrap of the sample's documents, moved onto the exact value; documents being
        seen only through a sample, it is if anything too wide. The null is the mean over isotropic Gaussian clouds of this n and d.
        """
        n, d = self.n, self.d
        if not self._varies(centred):
            return Number(np.nan, n=n, d=d, note="all points are equal" if n > 1 else "a single point has no spectrum")
        value = self.spectral_value(function, centred=centred)
        moved = self.spectral_moves(function, centred=centred)
        low, high = (np.nan, np.nan) if moved is None else value + np.nanquantile(moved, [0.025, 0.975])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            chance = np.asarray(function(isotropic_spectra(n - centred, d)))
        return Number(
            value,
            n=n,
            d=d,
            low=max(low, bounds[0]),
            high=min(high, bounds[1]),
            null=float(chance.mean()),
            null_sd=float(chance.std(ddof=1)),
        )

    @cached_property
    def dimension_cosines(self) -> Floats:
        """(d,) each dimension's part of the mean cosine: (sᵢ² − Σuᵢ²)/(n(n−1)). They add up to it."""
        m = self.moments
        return np.asarray((m.directions**2 - m.squared) / max(m.alive * (m.alive - 1), 1))

    def dimension_share(self, count: int) -> Number:
        """The part of the mean cosine that its `count` largest dimensions carry."""
        m, cosines = self.moments, self.dimension_cosines
        whole = float(cosines.sum())
        order = np.argsort(cosines)[::-1][:count]

        def mean_cosine(t: Totals) -> Floats:
            return np.asarray(((t.directions**2).sum(-1) - t.alive) / (t.alive * (t.alive - 1)))

        def share(t: Totals) -> Floats:
            pairs = (t.alive * (t.alive - 1))[..., None]
            kept = t.alive[..., None] / m.alive
            parts = (t.directions**2 - kept * m.squared) / pairs
            return np.asarray(parts[..., order].sum(-1) / parts.sum(-1))

        lower = self.grouped(mean_cosine)[0]
        if m.alive < 2 or not whole > 0 or not lower > 0:
            return Number(np.nan, n=m.alive, d=self.d, note="undefined: the mean cosine is not above zero")
        low, high = self.grouped(share)
        named = ", ".join(str(i) for i in order)
        value = float(cosines[order].sum() / whole)
        return Number(value, n=m.alive, d=self.d, low=low, high=high, null=count / self.d, note=f"dimension {named}")
