"""The difference of one metric between two clouds: paired if both have read the same documents, otherwise from both intervals."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from isoscope.core.number import NAN, Number
from isoscope.core.numerics import Floats, margin
from isoscope.estimation.cloud import Cloud
from isoscope.estimation.metric import AnyCloud, Metric
from isoscope.estimation.profile import SHARED_DOCUMENTS
from isoscope.statistics.jackknife_groups import Totals

NORMAL = 1.959963984540054
"""Half the width of a 95 % interval, in standard deviations."""
PAIRED, UNPAIRED, BARE = "paired", "unpaired", "no interval"


@dataclass(frozen=True)
class Difference:
    """b − a, with a 95 % interval, the p of no difference, and how they were made: `paired`, `unpaired`, or `no interval`."""

    value: float
    low: float = NAN
    high: float = NAN
    p: float = NAN
    how: str = BARE

    @property
    def least(self) -> float:
        """The smallest size that the interval leaves possible; without an interval the size itself.

        >>> Difference(0.3, 0.2, 0.4).least, Difference(-0.1, -0.3, 0.1).least, Difference(-0.1).least
        (0.2, 0.0, 0.1)
        """
        if math.isnan(self.low):
            return abs(self.value)
        return max(self.low, -self.high, 0.0)


class Traced(Cloud):
    """A cloud that records how a metric makes its interval: from sums with one group left out, or by a function of the eigenvalues."""

    left_out: tuple[float, Floats] | None = None
    """The value, and the value without each of the groups that hold points."""
    of_spectrum: tuple[Callable[[Floats], Floats], bool] | None = None
    """The function, and whether its eigenvalues are centred."""

    def jackknife_interval(
        self,
        estimate: Callable[[Totals], Floats],
        *,
        bounds: tuple[float, float] = (-np.inf, np.inf),
        transform: Callable[[Floats], Floats] = np.asarray,
    ) -> tuple[float, float]:
        """Return the interval as a cloud does, and record the estimates behind the last one."""
        seen: list[Floats] = []

        def record(totals: Totals) -> Floats:
            seen.append(np.asarray(estimate(totals)))
            return seen[-1]

        found = super().jackknife_interval(record, bounds=bounds, transform=transform)
        self.left_out = (float(transform(seen[0])), transform(seen[1])) if len(seen) == 2 else None
        return found

    def bootstrap_shifts(
        self, function: Callable[[Floats], Floats], *, centred: bool = True, documents: np.ndarray | None = None
    ) -> Floats | None:
        """Record the function only: `_bootstrap` draws the same documents for both clouds."""
        self.of_spectrum = function, centred
        return None


def difference(metric: Metric, a: Number, b: Number, clouds: tuple[AnyCloud, AnyCloud] | None, scale: tuple[float, float]) -> Difference:
    """Return b·scale₂ − a·scale₁ of a metric, from the clouds behind the numbers if both have read the same documents."""
    value = float(b) * scale[1] - float(a) * scale[0]
    if math.isnan(value):
        return Difference(NAN)
    if clouds is not None and isinstance(clouds[0], Cloud) and isinstance(clouds[1], Cloud):
        paired = _paired_difference(metric, value, clouds[0], clouds[1], scale)
        if paired is not None:
            return paired
    return unpaired_difference(
        value, (a.low * scale[0], float(a) * scale[0], a.high * scale[0]), (b.low * scale[1], float(b) * scale[1], b.high * scale[1])
    )


def unpaired_difference(value: float, a: tuple[float, float, float], b: tuple[float, float, float]) -> Difference:
    """Return the difference from two independent intervals (low, value, high): the distances to their ends add as squares.

    >>> found = unpaired_difference(1.0, (0.97, 1.0, 1.03), (1.96, 2.0, 2.04))
    >>> round(found.low, 3), round(found.high, 3), found.how
    (0.95, 1.05, 'unpaired')
    """
    down, up = math.hypot(b[1] - b[0], a[2] - a[1]), math.hypot(b[2] - b[1], a[1] - a[0])
    if math.isnan(down) or math.isnan(up):
        return Difference(value)
    return Difference(value, value - down, value + up, _normal_p(value, (down if value > 0 else up) / NORMAL), UNPAIRED)


def same_documents(a: Cloud, b: Cloud) -> bool:
    """Return whether every group holds the same number of items of both clouds; with one source, these are the same items."""
    return a.groups is not None and b.groups is not None and np.array_equal(a.groups.units, b.groups.units)


def _paired_difference(metric: Metric, value: float, a: Cloud, b: Cloud, scale: tuple[float, float]) -> Difference | None:
    """Return the difference by resampling the documents of both together; None if this metric's interval is not made so."""
    # The metric is called for its side effect: it shows from which sums or which function of the spectrum its interval comes.
    traced = [Traced(cloud.moments, cloud.groups, cloud.sample) for cloud in (a, b)]
    values = [float(metric(cloud)) for cloud in traced]
    if all(cloud.of_spectrum is not None for cloud in traced):
        return _bootstrap(value, traced, scale)
    # The interval's estimate must be the metric's value: a metric may also ask for an interval of something else, as a test.
    if all(
        cloud.left_out is not None and math.isclose(cloud.left_out[0], own, rel_tol=1e-6, abs_tol=1e-12)
        for cloud, own in zip(traced, values, strict=True)
    ):
        return _jackknife(value, traced, scale)
    return None


def _jackknife(value: float, clouds: list[Traced], scale: tuple[float, float]) -> Difference | None:
    """Leave the same group of items out of both at a time; Student's t as for one cloud."""
    from scipy.special import stdtr

    if not same_documents(clouds[0], clouds[1]):
        return None
    sizes = [cloud.groups.counts[0, 0] for cloud in clouds if cloud.groups is not None]
    either = (sizes[0] > 0) | (sizes[1] > 0)
    # A group that is empty in one cloud does not move that cloud's number. Where both move alike, the moves cancel: that is the gain of
    # pairing.
    moved = np.zeros(len(either))
    for cloud, size, sign, factor in zip(clouds, sizes, (-1, 1), scale, strict=True):
        assert cloud.left_out is not None
        whole, left_out = cloud.left_out
        moved[size > 0] += sign * factor * (left_out - whole)
    G = int(either.sum())
    variance = float((moved[either] ** 2).sum()) * (G - 1) / G
    degrees = min(float(size.sum() ** 2 / (size**2).sum()) for size in sizes) - 1
    half = margin(variance**0.5, degrees)
    p = float(2 * stdtr(degrees, -abs(value) / variance**0.5)) if variance > 0 else float(value == 0)
    return Difference(value, value - half, value + half, p, PAIRED)


def _bootstrap(value: float, clouds: list[Traced], scale: tuple[float, float]) -> Difference | None:
    """Draw the same documents of both samples; the draws' spread is moved onto the exact difference."""
    if not all(cloud.has("sample") for cloud in clouds):
        return None
    own = [np.unique(cloud.require_sample().unit) for cloud in clouds]
    shared = np.intersect1d(own[0], own[1])
    if len(shared) < SHARED_DOCUMENTS * max(map(len, own)):
        return None
    moved = []
    for cloud, units, factor in zip(clouds, own, scale, strict=True):
        assert cloud.of_spectrum is not None
        function, centred = cloud.of_spectrum
        drawn = Cloud.bootstrap_shifts(cloud, function, centred=centred, documents=None if len(units) == len(shared) else shared)
        if drawn is None:
            return None
        moved.append(factor * drawn)
    steps = moved[1] - moved[0]
    # The draws have the same seed and the same documents, so draw i of both clouds holds the same ones. With few documents all shifts may
    # lie on one side of 0; an interval still holds its value.
    low, high = value + np.nanquantile(steps, [0.025, 0.975])
    return Difference(value, float(min(low, value)), float(max(high, value)), _normal_p(value, float(np.nanstd(steps, ddof=1))), PAIRED)


def _normal_p(value: float, sd: float) -> float:
    """Two-sided p; if nothing varies, 1 for no difference and 0 for any."""
    return math.erfc(abs(value) / sd / math.sqrt(2)) if sd > 0 else float(value == 0)
