"""What changes over a training, by how much, and when it begins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from isoscope.core.numerics import Floats
from isoscope.estimation.inference import Estimate, sign_test, student

PART = 0.1
"""A change has begun where this part of it is done."""
NAN = float("nan")


@dataclass(frozen=True)
class Track:
    """One number at the steps of one seed, in their order, with its interval over documents at each."""

    steps: Floats
    values: Floats
    low: Floats
    high: Floats

    @property
    def change(self) -> Estimate:
        """The last less the first; its interval takes the two for independent, and so is too wide where they share their documents."""
        halves = (self.high - self.low) / 2
        value, half = float(self.values[-1] - self.values[0]), math.hypot(halves[0], halves[-1])
        return Estimate(value, value - half, value + half, "over documents")


def change(tracks: Sequence[Track]) -> Estimate:
    """The change from the first to the last step, over seeds; of one seed over documents."""
    if len(tracks) == 1:
        return tracks[0].change
    found = student([track.values[-1] - track.values[0] for track in tracks])
    return replace(found, note=f"over {len(tracks)} seeds")


def direction(found: Estimate) -> str:
    """`up` or `down` where the whole interval says so, else `undecided`.

    >>> direction(Estimate(1.0, 0.5, 1.5)), direction(Estimate(-1.0, -2.0, 0.1))
    ('up', 'undecided')
    """
    return "up" if found.low > 0 else "down" if found.high < 0 else "undecided"


def onset(track: Track) -> Estimate:
    """The first step at which a tenth of the change from the first to the last step is done.

    NaN where the intervals of the first and of the last step overlap: what does not change has no onset. The interval is over documents:
    from the first step whose interval reaches the tenth to the first that lies beyond it.

    >>> track = Track(np.array([0, 10, 20, 30]), *np.array([[0, 0.5, 6, 10], [0, 0.2, 5, 9], [0, 1.2, 7, 11.0]]))
    >>> onset(track).value, onset(track).low, onset(track).high
    (20.0, 10.0, 20.0)
    """
    v, low, high = track.values, track.low, track.high
    total = v[-1] - v[0]
    if len(v) < 3 or not np.isfinite(v).all():
        return Estimate(NAN, note="needs three steps or more")
    bounded = np.isfinite(low).all() and np.isfinite(high).all()
    if total == 0 or (bounded and low[-1] <= high[0] and low[0] <= high[-1]):
        return Estimate(NAN, note="no change beyond chance")
    near, far = (low, high) if total > 0 else (high, low)
    at, early, late = (_first((curve - v[0]) / total >= PART) for curve in (v, far, near))
    ends = (float(track.steps[early]), float(track.steps[late])) if bounded else (NAN, NAN)
    return Estimate(float(track.steps[at]), ends[0], ends[1], "over documents")


def _first(reached: np.ndarray) -> int:
    """The first place, from the second step on, where it is reached; the last step where it never is."""
    places = np.flatnonzero(reached[1:])
    return int(places[0]) + 1 if len(places) else len(reached) - 1


def onset_over_seeds(tracks: Sequence[Track]) -> Estimate:
    """The onset over seeds: mean and Student's interval of ln(1 + step), as steps are spread evenly on that scale; of one seed its own."""
    each = [onset(track) for track in tracks]
    known = [one for one in each if math.isfinite(one.value)]
    if len(known) < 2:
        return known[0] if known else (each[0] if each else Estimate(NAN, note="needs three steps or more"))
    found = student(np.log1p([one.value for one in known]))
    last = float(max(track.steps[-1] for track in tracks))
    at, low, high = (min(max(round(math.expm1(x), 9), 0.0), last) for x in (found.value, found.low, found.high))
    return Estimate(at, low, high, f"over {len(known)} of {len(tracks)} seeds")


@dataclass(frozen=True)
class Precedence:
    """The part of heads whose drift begins before their sharpening, 0.5 where neither comes first; p of the sign test."""

    value: float
    low: float
    high: float
    p: float
    units: int
    verdict: str
    note: str


def precedence(drift: Floats, sharpening: Floats) -> Precedence:
    """Which begins first? `drift` and `sharpening` are onsets (seeds, heads); NaN where there is none.

    The units are the seeds: Student's interval of the part of heads, ties counted half, and a sign test over seeds. The heads of one
    training share its chance, so that parts over few seeds may all lie on one side by it; therefore the interval holds one half unless
    the mean difference of ln(1 + onset) surely has the same sign, whose spread over seeds is nearer to a normal one. One seed decides
    nothing: its part of heads, without those that begin at the same step, has no interval, and p takes heads for independent.

    >>> found = precedence(np.full((3, 8), 10.0), np.full((3, 8), 20.0))
    >>> found.value, round(found.p, 4), found.verdict
    (1.0, 0.25, 'drift first')
    """
    known = np.isfinite(drift) & np.isfinite(sharpening)
    first = np.where(known, np.sign(np.where(known, sharpening - drift, 0)) / 2 + 0.5, NAN)
    ahead = np.where(known, np.log1p(np.where(known, sharpening, 0)) - np.log1p(np.where(known, drift, 0)), NAN)
    seeds, gaps = ([row[np.isfinite(row)] for row in part[known.any(1)]] for part in (first, ahead))
    tied = sum(int((row == 0.5).sum()) for row in seeds)
    note = f"{sum(len(row) for row in seeds)} heads with both onsets, {tied} at the same step"
    if not seeds:
        return Precedence(NAN, NAN, NAN, NAN, 0, "undecided", note)
    if len(seeds) == 1:
        apart = seeds[0][seeds[0] != 0.5]
        wins, n = int(apart.sum()), len(apart)
        note += "; one seed decides nothing, as its heads share the chance of one training"
        return Precedence(wins / n if n else 0.5, NAN, NAN, sign_test(wins, n), n, "undecided", note)
    shares = np.array([row.mean() for row in seeds])
    wins, n = int((shares > 0.5).sum()), int((shares != 0.5).sum())
    found, gap = student(shares, (0.0, 1.0)), student([row.mean() for row in gaps])
    low, high = found.low if gap.low > 0 else min(found.low, 0.5), found.high if gap.high < 0 else max(found.high, 0.5)
    said = "drift first" if low > 0.5 else "sharpening first" if high < 0.5 else "undecided"
    return Precedence(found.value, low, high, sign_test(wins, n), len(seeds), said, note)


def later(ones: Sequence[Floats], others: Sequence[Floats]) -> tuple[Estimate, float]:
    """How often one of `ones` begins after one of `others`, ties counted half, with p; an array of onsets a seed.

    Over several seeds with both, Student's interval and a sign test over seeds; of one, Mann and Whitney's p over heads and no interval.

    >>> later([np.array([4.0, 8.0])], [np.array([1.0, 4.0])])[0].value
    0.875
    """
    from scipy.stats import mannwhitneyu

    pairs = [(a[np.isfinite(a)], b[np.isfinite(b)]) for a, b in zip(ones, others, strict=True)]
    pairs = [(a, b) for a, b in pairs if len(a) and len(b)]
    each = [float((np.sign(a[:, None] - b[None]) / 2 + 0.5).mean()) for a, b in pairs]
    if not each:
        return Estimate(NAN), NAN
    if len(each) == 1:
        return Estimate(each[0]), float(mannwhitneyu(*pairs[0]).pvalue)
    return student(each, (0.0, 1.0)), sign_test(sum(x > 0.5 for x in each), sum(x != 0.5 for x in each))
