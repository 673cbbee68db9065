"""What may be wrong with a cloud of embeddings: seven checks, each of one quantity against one limit.

No limit is a matter of taste: each is the point where the quantity has a consequence that its description states. A check fails only if the
whole 95 % interval lies beyond the limit, and is `unclear` if the limit lies within the interval. Counts over all rows have no interval.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from isoscope.core.number import Number
from isoscope.core.numerics import Floats
from isoscope.core.wording import format_count, format_list, format_number, format_share
from isoscope.estimation.cloud import Cloud
from isoscope.estimation.cone_split import MOST_CONES, ONE_PEAK, split_into_cones
from isoscope.estimation.isotropic_quantiles import one_pair
from isoscope.statistics.jackknife_groups import GROUPS

FINE, UNCLEAR, FAULT = "fine", "unclear", "fault"
MOST_COPIES = 0.01
"""The share of rows that repeat another one: beyond it, the nearest neighbour of one query in a hundred is a copy of itself."""
MOST_DOMINANT = 3
"""Coordinates or directions that may be called dominant, as long as they are at most an eighth of all."""
HALF = 0.5
"""A coordinate or a direction with more than this part outweighs all smaller ones together."""
VARIANCE = 0.99
"""The part of the variance that the dimensions in use hold."""
ROUNDING = 1e-6
"""Less than this part of the variance is what rounding to half precision leaves of nothing."""


@dataclass(frozen=True)
class Check:
    """One check of a cloud. `measured` and `limit` are texts, `repair` an expression of `isoscope.repair`, empty if none helps."""

    name: str
    outcome: str
    measured: str
    limit: str
    sentence: str
    repair: str = ""
    dominant: int = 0
    """How many coordinates a fault names."""


def check_cloud(cloud: Cloud, mean_cosine: Number, drift_ratio: Number) -> list[Check]:
    """Every check that a cloud allows, in the order in which faults are repaired."""
    cones, coordinates = _check_cones(cloud), _check_coordinates(cloud)
    # A dominant coordinate and the line between two cones are dominant directions, too; each is reported once, by its cause.
    explained = any(check.outcome != FINE for check in (cones, coordinates) if check is not None)
    checks = [_check_zeros(cloud), _check_copies(cloud), _check_drift(mean_cosine, drift_ratio), coordinates, cones]
    removed = coordinates.dominant if coordinates is not None else 0
    return [check for check in [*checks, *_check_spectrum(cloud, removed, explained=explained)] if check is not None]


def _judge(low: float, high: float, value: float, limit: float, *, above: bool = True) -> str:
    """The outcome for an interval; without one, the value decides."""
    low, high = (low, high) if np.isfinite(low) and np.isfinite(high) else (value, value)
    if (low > limit) if above else (high < limit):
        return FAULT
    return UNCLEAR if (high > limit if above else low < limit) else FINE


def _three_decimals(value: float, low: float, high: float) -> str:
    """A part of a whole, or a cosine, with its interval if it is known."""
    return f"{value:.3f}" + (f" [{low:.3f}, {high:.3f}]" if np.isfinite(low) and np.isfinite(high) else "")


def _count(rows: int, n: int) -> str:
    return f"{rows:,} of {n:,} rows"


def _check_zeros(cloud: Cloud) -> Check:
    zeros, n = cloud.moments.zeros, cloud.n
    sentence = f"{format_count(zeros, 'row is', 'rows are')} zero: no direction, so no cosine. Remove or recompute such rows."
    return Check("zero rows", FAULT if zeros else FINE, _count(zeros, n), "0", sentence if zeros else "No row is zero.")


def _check_copies(cloud: Cloud) -> Check | None:
    if cloud.duplicates is None:
        return None
    # Zero rows repeat each other, and have a check of their own.
    n, copies = cloud.n, max(cloud.duplicates - max(cloud.moments.zeros - 1, 0), 0)
    sentence = (
        f"{format_share(copies / n)} of the rows repeat another row exactly, so that a search returns copies. Remove them (numpy.unique)."
    )
    few = "No row repeats another." if not copies else f"Only {format_count(copies, 'row repeats', 'rows repeat')} another."
    bad = copies > MOST_COPIES * n
    limit = f"{100 * MOST_COPIES:g} % of rows"
    return Check("duplicates", FAULT if bad else FINE, _count(copies, n), limit, sentence if bad else few)


def _check_drift(cosine: Number, drift: Number) -> Check | None:
    """A typical pair must not look more alike than 95 % of isotropic pairs: then a cosine no longer tells what belongs together."""
    limit = one_pair(cosine.d)
    if not np.isfinite(cosine) or not np.isfinite(limit):
        return None
    outcome = _judge(cosine.low, cosine.high, cosine, limit)
    alike = f"Two vectors have a cosine of {format_number(cosine)} on average"
    level = f"95 % of isotropic pairs have less than {format_number(limit)}"
    sentence = {
        FAULT: f"{alike}, and {level}. A common mean holds {format_share(drift)} of their squared length: cosines are too high for all.",
        UNCLEAR: f"{alike}, about as much as unusual isotropic pairs: {level}.",
        FINE: f"{alike}; {level}.",
    }[outcome]
    measured = _three_decimals(cosine, cosine.low, cosine.high)
    return Check("drift", outcome, measured, format_number(limit), sentence, "Centre()" if outcome != FINE else "")


def _check_coordinates(cloud: Cloud) -> Check | None:
    """No coordinate may decide more of the cosines than all others together.

    The cosine of two independent points is the sum of uᵢvᵢ, whose mean square is sᵢ² with sᵢ = E[uᵢ²].
    """
    m, d = cloud.moments, cloud.d
    if not m.alive or d < 4:
        return None
    squares = np.square(m.squared / m.alive)
    order = np.argsort(squares)[::-1]
    count = _count_dominant(squares[order], d)
    part = float(_dominance(squares[order], count))
    low, high = _coordinate_interval(cloud, order, count, part)
    outcome = _judge(low, high, part, HALF)
    names, share = format_list(map(str, order[:count])), format_share(part)
    if count > 1 and outcome == FAULT:
        sentence = f"Each of the coordinates {names} decides more of the mean squared cosine than the other {d - count:,} together."
    else:
        more = f", more than the other {d - 1:,} together" if outcome == FAULT else ""
        sentence = f"Coordinate {order[0]} decides {share} of the mean squared cosine{more}."
    repair = "Standardise()" if outcome != FINE else ""
    return Check(
        "dominant coordinates", outcome, _three_decimals(part, low, high), format_number(HALF), sentence, repair, count * (outcome == FAULT)
    )


def _dominance(values: Floats, count: int) -> Floats:
    """The part of the `count`-th value (last axis, falling) among itself and all smaller ones: above one half it outweighs them together.

    >>> float(_dominance(np.array([6.0, 3.0, 1.0]), 1)), float(_dominance(np.array([6.0, 3.0, 1.0]), 2))
    (0.6, 0.75)
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(values[..., count - 1] / values[..., count - 1 :].sum(-1))


def _count_dominant(values: Floats, d: int) -> int:
    """How many of the values (falling) outweigh all smaller ones together, 1 to 3; at most an eighth of all d."""
    most = min(MOST_DOMINANT, max(1, d // 8), len(values))
    return max((count for count in range(1, most + 1) if _dominance(values, count) > HALF), default=1)


def _coordinate_interval(cloud: Cloud, order: np.ndarray, count: int, part: float) -> tuple[float, float]:
    """A 95 % interval around the exact part, by a jackknife over groups of the sample's points."""
    if cloud.sample is None or not len(cloud.sample):
        return np.nan, np.nan
    points = cloud.sample.points.astype(np.float64)
    points /= max(float(abs(points).max()), 1e-300)
    lengths = np.einsum("ij,ij->i", points, points)
    squared = np.square(points[lengths > 0]) / lengths[lengths > 0, None]
    groups = min(GROUPS, len(squared) // 2)
    if groups < 4:
        return np.nan, np.nan
    members = np.arange(groups)[:, None] == np.arange(len(squared)) % groups
    sums = members.astype(np.float64) @ squared
    values = _dominance(np.square(sums.sum(0) - sums)[:, order], count)
    half = 1.96 * float(np.sqrt((groups - 1) * values.var()))
    return max(part - half, 0.0), min(part + half, 1.0)


def _check_cones(cloud: Cloud) -> Check | None:
    """Points must not fall into groups with a gap in between: then cosines tell the groups apart, and little else."""
    split = split_into_cones(cloud.sample.points) if cloud.sample is not None and len(cloud.sample) else None
    if split is None:
        return None
    outcome = _judge(split.low, split.high, split.share, ONE_PEAK)
    measured = _three_decimals(split.share, split.low, split.high)
    count = f"{'at least ' if split.cones == MOST_CONES else ''}{split.cones}"
    gap = f"{format_share(split.share)} of the variance along a line between two centres is a gap"
    explains = f"{gap}; one peak allows {format_share(ONE_PEAK)}"
    sentence = {
        FAULT: f"The points fall into {count} separate groups: {explains}.",
        UNCLEAR: f"The points may fall into separate groups: {explains}.",
        FINE: "The points form one group.",
    }[outcome]
    repair = f"CentreClusters(k={max(split.cones, 2)})" if outcome != FINE else ""
    return Check("several cones", outcome, measured, format_number(ONE_PEAK), sentence, repair)


def _check_spectrum(cloud: Cloud, removed: int, *, explained: bool) -> Iterator[Check]:
    """No direction may hold more variance than all others together, and half of the dimensions must be in use.

    `removed`: how many dominant coordinates there are; they and dominant directions are left out of the dimensions in use.
    """
    degrees = min(cloud.n - 1, cloud.d)
    if not cloud.has("second") or degrees < 4:
        return
    values = cloud.spectrum().values
    if not explained and _leaves_variance(values, _count_dominant(values, degrees)):
        count = _count_dominant(values, degrees)
        part = cloud.spectral(lambda values: _dominance(values, count), bounds=(0.0, 1.0))
        if np.isfinite(part):
            outcome = _judge(part.low, part.high, part, HALF)
            removed = count if outcome == FAULT else 0
            sentence = f"The direction of most variance holds {format_share(part)} of it."
            if outcome == FAULT and count > 1:
                sentence = f"Each of {count} directions holds more variance than the other {cloud.d - count:,} together."
            repair = f"AllButTheTop(k={count})" if outcome != FINE else ""
            measured = _three_decimals(part, part.low, part.high)
            yield Check("dominant directions", outcome, measured, format_number(HALF), sentence, repair)
    removed = removed if _leaves_variance(values, removed) else 0
    used = cloud.spectral(lambda values: dimensions_in_use(values[..., removed:]), bounds=(1.0, float(degrees)))
    if not np.isfinite(used) or not np.isfinite(used.null):
        return
    outcome = _judge(used.low, used.high, used, used.null / 2, above=False)
    verb = "holds" if round(used) == 1 else "hold"
    hold = f"{used:.0f} of {cloud.d:,} dimensions {verb} {format_share(VARIANCE)} of the variance{' that is left' * bool(removed)}"
    sentence = f"{hold}; isotropic points of this n and d would use {used.null:.0f}."
    sentence += " More than half of the numbers can be dropped at almost no loss." if outcome == FAULT else ""
    repair = f'Whiten("pca", n_components={used:.0f})' if outcome != FINE else ""
    measured = f"{used:.0f}" + (f" [{used.low:.0f}, {used.high:.0f}]" if np.isfinite(used.low) else "")
    yield Check("few dimensions in use", outcome, measured, f"{used.null / 2:.0f}", sentence, repair)


def _leaves_variance(values: Floats, removed: int) -> bool:
    """Whether more than rounding is left without the first eigenvalues. If not, they are all dimensions in use, and dominate no others.

    >>> _leaves_variance(np.array([2.0, 1.0, 1e-3]), 2), _leaves_variance(np.array([2.0, 1.0, 1e-9]), 2)
    (True, False)
    """
    return bool(values[removed:].sum() > ROUNDING * values.sum())


def dimensions_in_use(values: Floats) -> Floats:
    """How many of the eigenvalues (last axis, falling) hold 99 % of their sum.

    >>> float(dimensions_in_use(np.array([90.0, 8.0, 1.9, 0.1]))), float(dimensions_in_use(np.ones(200)))
    (3.0, 198.0)
    """
    # A billionth less, so that rounding does not decide whether equal eigenvalues reach it.
    total = values.sum(-1, keepdims=True)
    return np.asarray((np.cumsum(values, -1) < (VARIANCE - 1e-9) * total).sum(-1) + 1.0)
