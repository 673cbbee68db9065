"""The points of one site under one token policy, as the statistics know them: the input of a metric."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, TypeVar

import numpy as np

from isoscope.core import site as slices
from isoscope.core.errors import IsoscopeError
from isoscope.core.number import Number
from isoscope.core.numerics import Floats
from isoscope.estimation.eigenvalues import Spectrum, bootstrap_values, isotropic_spectra
from isoscope.estimation.neighbours import Neighbours, neighbours
from isoscope.estimation.resampled_neighbours import SHARED, SharedSearch
from isoscope.estimation.sample_documents import SampleDocuments, axes_of, narrow_product
from isoscope.statistics.jackknife_groups import Groups, Totals
from isoscope.statistics.sample import Sample
from isoscope.statistics.site_statistics import Moments, SiteStatistics

PARTS = ("directions", "sums", "second", "cosine", "groups", "sample", "neighbours")
"""The parts a metric may read: Σu; Σx, Σu² and norms; second moments of x, of u; groups of items; a sample; neighbours within it."""

T = TypeVar("T")
REACH = 128
"""Above two neighbours, one search for this many serves all metrics that ask for fewer."""


@dataclass
class Cloud:
    """Moments, groups and sample of one set of points. Work that several metrics share is done once, here."""

    moments: Moments
    groups: Groups | None = None
    sample: Sample | None = None
    unit: float = 1.0
    """The length that counts as 1 in all sums: a power of two, other than 1 if squares would overflow or vanish."""
    duplicates: int | None = None
    """Rows of a whole matrix that repeat an earlier one; None if only the sample can tell."""
    search: tuple[SharedSearch, np.ndarray] | None = None
    """A search for neighbours among the points of all slices, and which of its rows are in this sample; None for a search of its own."""
    _neighbours: Neighbours | None = field(default=None, init=False, repr=False, compare=False)
    _cache: dict[Callable[[Cloud], Any], Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    _spectra: dict[bool, Spectrum] = field(default_factory=dict, init=False, repr=False, compare=False)
    _bootstraps: dict[tuple[bool, bytes | None], tuple[Floats, Floats] | None] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @classmethod
    def of(cls, statistics: SiteStatistics, policy: str, search: SharedSearch | None = None) -> Cloud | None:
        """The points of a site under a token policy; None if it leaves no point. `search` serves all policies of the site."""
        chosen = [statistics.names.index(name) for name in slices.slices_of_policy(policy, statistics.names)]
        chosen = [i for i in chosen if statistics.moments[i].n]
        if not chosen:
            return None
        moments = reduce(Moments.merge, [statistics.moments[i] for i in chosen])
        groups = statistics.groups.join(chosen) if statistics.groups is not None else None
        if statistics.sample is None:
            return cls(moments, groups)
        shared = None if search is None else (search, np.flatnonzero(np.isin(statistics.sample.slice, chosen)))
        return cls(moments, groups, statistics.sample.join(chosen), search=shared)

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
        """Return a note on the exact duplicates in the sample and, if known, among all points; empty without duplicates.

        >>> Cloud(Moments(2)).duplicates_note(12, "left out")
        '12 exact duplicates left out'
        """
        note = f"{sampled:,} exact duplicate{'s' if sampled > 1 else ''} {fate}" if sampled else ""
        if not self.duplicates or self.sample is None or len(self.sample) == self.n:
            return note
        return f"{note or 'no duplicates in the sample'} of {len(self.sample):,} points, {self.duplicates:,} among all {self.n:,}"

    def require_sample(self) -> Sample:
        """Return the sample, or raise an error that says what to do if none was kept."""
        if self.sample is None or not len(self.sample):
            raise IsoscopeError("This number needs a sample of points and none was kept; measure again with --sample 4096.")
        return self.sample

    def neighbours(self, k: int | None = None, *, progress: Callable[[int], None] = lambda rows: None) -> Neighbours:
        """Return the k nearest neighbours of each distinct point of the sample; without k, as many as one search gives, up to `REACH`."""
        known = self._neighbours
        if known is None or known.distances.shape[1] < (min(REACH, len(known.kept) - 1) if k is None else k):
            # A search for two neighbours takes a quarter of the time, and often nothing asks for more.
            few = k is not None and k <= SHARED
            if few and self.search is not None:
                known = self.search[0].among(self.search[1], k or 1)
            else:
                known = neighbours(self.require_sample().points, k or 1, reach=k if few else REACH, progress=progress)
            self._neighbours = known
        return known if k is None else replace(known, distances=known.distances[:, :k], indices=known.indices[:, :k])

    def cached(self, function: Callable[[Cloud], T]) -> T:
        """Return a function of this cloud, which is called only once: for metrics that share their work."""
        if function not in self._cache:
            self._cache[function] = function(self)
        result: T = self._cache[function]
        return result

    @property
    def totals(self) -> Totals:
        """The sums over all points; if groups were not kept, every point counts as an item of its own."""
        if self.groups is not None:
            return self.groups.totals
        m = self.moments
        # Σ‖u‖² and Σn² over single points are both their number, and Σ‖X‖² is Σ‖x‖²; points of length zero have no direction.
        n, alive, norm, norm2 = (np.asarray(x, dtype=np.float64) for x in (m.n, m.alive, m.norm, m.norm2))
        return Totals(n, alive, m.total, m.directions, norm, norm2, alive, alive, norm2, n)

    def jackknife_interval(
        self,
        estimate: Callable[[Totals], Floats],
        *,
        bounds: tuple[float, float] = (-np.inf, np.inf),
        transform: Callable[[Floats], Floats] = np.asarray,
    ) -> tuple[float, float]:
        """Return a 95 % interval of a function of sums, by the jackknife over groups of items, within the bounds of the metric.

        `transform` is an increasing function that is applied to the ends: an interval of a square becomes one of its root.
        """
        if self.groups is None:
            return np.nan, np.nan
        low, high = (float(transform(np.asarray(end))) for end in self.groups.interval(estimate))
        return max(low, bounds[0]), min(high, bounds[1])

    def spectrum(self, *, centred: bool = True) -> Spectrum:
        """Return the eigenvalues of the covariance or, uncentred, of Σxxᵀ/n; raise an error that says how to get them if there are none."""
        if self.n < 1 + centred:
            raise IsoscopeError("A spectrum needs at least two points.")
        if self.moments.second is None:
            raise IsoscopeError("A spectrum needs second moments; above d = 2048 ask for them with --second-moments LAYERS.")
        if centred not in self._spectra:
            self._spectra[centred] = Spectrum.of(self.moments.second, centred=centred)
        return self._spectra[centred]

    @property
    def documents(self) -> SampleDocuments:
        """The points of the sample in the order of their documents."""
        return self.cached(_sort_by_document)

    def bootstrap_spectra(self, *, centred: bool = True, documents: np.ndarray | None = None) -> tuple[Floats, Floats] | None:
        """Return `bootstrap_values` of the sample, or of these documents of it; the result is cached.

        They are variances along the eigenvectors of the whole cloud. The draws depend only on which documents there are, so clouds with the
        same documents have the same draws.
        """
        key = centred, None if documents is None else documents.tobytes()
        if key not in self._bootstraps:
            sums = [self.documents.counts, *self.cached(centred_sums if centred else _raw_sums)]
            if documents is not None:
                sums = [part[np.isin(self.documents.hashes, documents)] for part in sums]
            self._bootstraps[key] = bootstrap_values(*sums)
        return self._bootstraps[key]

    def _has_spread(self, centred: bool) -> bool:
        """Return whether the points differ, and so have a spectrum."""
        # Equal points leave only rounding: 1e-28 of the squared length is a spread of 45 units in the last place.
        spectrum = self.spectrum(centred=centred)
        return spectrum.size > 0 and bool(spectrum.values.sum() > 1e-28 * self.moments.norm2 / self.n)

    def spectral_value(self, function: Callable[[Floats], Floats], *, centred: bool = True) -> float:
        """Return a function of the eigenvalues (last axis), exactly; NaN if all points are equal."""
        return float(function(self.spectrum(centred=centred).values)) if self._has_spread(centred) else np.nan

    def bootstrap_shifts(
        self, function: Callable[[Floats], Floats], *, centred: bool = True, documents: np.ndarray | None = None
    ) -> Floats | None:
        """Return (draws,) how far bootstrap draws of the sample's documents, or of the given ones, move a function of the eigenvalues.

        None without a sample, or with fewer than three documents.
        """
        spectra = self.bootstrap_spectra(centred=centred, documents=documents) if self.has("sample") else None
        if spectra is None or not spectra[0].sum() > 0:
            return None
        # Against the sample's own value, not the exact one: a sample has fewer points, so a function of its eigenvalues is biased.
        # The bias is the same in all draws and cancels in the difference.
        with np.errstate(invalid="ignore", divide="ignore"):  # with few documents, a draw may hold only one of them
            return np.asarray(function(spectra[1]) - function(spectra[0]))

    def spectral(
        self, function: Callable[[Floats], Floats], *, centred: bool = True, bounds: tuple[float, float] = (-np.inf, np.inf)
    ) -> Number:
        """Return a function of the eigenvalues (last axis) as a number.

        The value is exact. The interval is a bootstrap of the sample's documents, moved onto the exact value. It is slightly conservative,
        because documents are seen only through a sample. The null is the mean over isotropic Gaussian clouds of this n and d.
        """
        n, d = self.n, self.d
        if not self._has_spread(centred):
            return Number(np.nan, n=n, d=d, note="all points are equal")
        value = self.spectral_value(function, centred=centred)
        shifts = self.bootstrap_shifts(function, centred=centred)
        # The draws tell how far documents move the number. Where it lies is known exactly, so only the moves are taken from the sample.
        low, high = (np.nan, np.nan) if shifts is None else value + np.nanquantile(shifts, [0.025, 0.975])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            # Centring costs one degree of freedom: n centred points have the spectrum of n − 1 independent ones.
            chance = np.asarray(function(isotropic_spectra(n - centred, d)))
        null, null_sd = float(chance.mean()), float(chance.std(ddof=1))
        return Number(value, n=n, d=d, low=max(low, bounds[0]), high=min(high, bounds[1]), null=null, null_sd=null_sd)


def _sort_by_document(cloud: Cloud) -> SampleDocuments:
    return SampleDocuments.of(cloud.require_sample())


def _centred_points(cloud: Cloud) -> np.ndarray:
    return cloud.documents.centred(cloud.moments.mean)


def centred_sums(cloud: Cloud) -> tuple[Floats, Floats]:
    """Return the sums by document of the squared coordinates along the eigenvectors of the covariance, and of the coordinates."""
    return cloud.documents.coordinate_sums(narrow_product(cloud.cached(_centred_points), cloud.spectrum().vectors))


def own_axes(cloud: Cloud) -> tuple[Floats, np.ndarray]:
    """Return the eigenvectors of XᵀX of the sample, (d, axes), falling, and its points along them, (m, axes), by document."""
    vectors = cloud.spectrum(centred=False).vectors if _holds_all(cloud) else axes_of(cloud.documents.points)
    along = narrow_product(cloud.cached(_centred_points), vectors)
    along += (cloud.moments.mean @ vectors).astype(along.dtype)
    return vectors, along


def _raw_sums(cloud: Cloud) -> tuple[Floats]:
    """Return the sums by document of the squared coordinates along the eigenvectors of Σxxᵀ."""
    if _holds_all(cloud):
        return cloud.documents.coordinate_sums(cloud.cached(own_axes)[1])[:1]
    vectors = cloud.spectrum(centred=False).vectors
    return cloud.documents.coordinate_sums(narrow_product(cloud.cached(_centred_points), vectors), cloud.moments.mean @ vectors)[:1]


def _holds_all(cloud: Cloud) -> bool:
    """Return whether the sample is the whole cloud and has its eigenvectors."""
    return len(cloud.documents.points) == cloud.n and cloud.moments.second is not None
