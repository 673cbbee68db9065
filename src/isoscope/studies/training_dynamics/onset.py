"""Changes over a training: how large they are, when they begin, and which one comes first."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from isoscope.core.numerics import Floats
from isoscope.core.wording import format_p_value
from isoscope.estimation.inference import Estimate, sign_test, student
from isoscope.studies.training_dynamics.gather import CHANGES, COSINE, DRIFT, NAN, SHARPNESS, MeasuredSuite, Seed

PART = 0.1
"""A change has begun when this part of it is done."""


@dataclass(frozen=True)
class Track:
    """One number over the steps of one seed, in order, with its interval over documents at each step."""

    steps: Floats
    values: Floats
    low: Floats
    high: Floats

    @property
    def difference(self) -> float:
        """The last value minus the first; 0 if they differ by rounding alone."""
        first, last = float(self.values[0]), float(self.values[-1])
        return 0.0 if math.isclose(first, last, rel_tol=1e-12) else last - first


def change(tracks: Sequence[Track]) -> Estimate:
    """The change from the first to the last step, with its interval over seeds, or over documents if there is one seed."""
    if len(tracks) > 1:
        return replace(student([track.difference for track in tracks]), note=f"over {len(tracks)} seeds")
    # The ends are treated as independent, so the interval is too wide if they share documents.
    halves, value = (tracks[0].high - tracks[0].low) / 2, tracks[0].difference
    half = math.hypot(halves[0], halves[-1])
    return Estimate(value, value - half, value + half, "over documents")


def direction(change: Estimate) -> str:
    """`up` or `down` if the whole interval lies on that side of 0, else `undecided`.

    >>> direction(Estimate(1.0, 0.5, 1.5)), direction(Estimate(-1.0, -2.0, 0.1))
    ('up', 'undecided')
    """
    return "up" if change.low > 0 else "down" if change.high < 0 else "undecided"


def onset(track: Track) -> Estimate:
    """The first step at which a tenth of the change from the first to the last step is done.

    NaN if the intervals of the first and the last step overlap: a number that does not change has no onset. The interval is over
    documents: from the first step whose interval reaches the tenth to the first step whose interval lies beyond it.

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
    """The first position after the first step where it is reached, or the last position."""
    places = np.flatnonzero(reached[1:])
    return int(places[0]) + 1 if len(places) else len(reached) - 1


def onset_over_seeds(tracks: Sequence[Track]) -> Estimate:
    """The onset over seeds: the mean of ln(1 + step) with Student's interval; for one seed, its own onset."""
    by_seed = [onset(track) for track in tracks]
    known = [at for at in by_seed if math.isfinite(at.value)]
    if len(known) < 2:
        return known[0] if known else (by_seed[0] if by_seed else Estimate(NAN, note="needs three steps or more"))
    # Checkpoints are usually saved at growing distances, so seeds differ evenly in ln(1 + step), which step 0 has too.
    logarithm = student(np.log1p([at.value for at in known]))
    last = float(max(track.steps[-1] for track in tracks))
    at, low, high = (min(max(round(math.expm1(x), 9), 0.0), last) for x in (logarithm.value, logarithm.low, logarithm.high))
    return Estimate(at, low, high, f"over {len(known)} of {len(tracks)} seeds")


@dataclass(frozen=True)
class Precedence:
    """The share of heads whose drift begins before their sharpening, 0.5 if neither comes first; and p of the sign test."""

    value: float
    low: float
    high: float
    p: float
    units: int
    verdict: str
    note: str


def precedence(drift: Floats, sharpening: Floats) -> Precedence:
    """Which begins first? `drift` and `sharpening` are onsets (seeds, heads), NaN for heads without one.

    The units are the seeds: Student's interval of the share of heads, with ties counted half, and a sign test over seeds. One seed decides
    nothing: its share of heads, without those that begin at the same step, has no interval, and its p treats heads as independent.

    >>> order = precedence(np.full((3, 8), 10.0), np.full((3, 8), 20.0))
    >>> order.value, round(order.p, 4), order.verdict
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
    share, gap = student(shares, (0.0, 1.0)), student([row.mean() for row in gaps])
    # The heads of one training share its chance, so the shares of a few seeds may all lie on one side by chance. The interval therefore
    # includes one half unless the mean difference of ln(1 + onset), whose spread over seeds is closer to normal, surely has the same sign.
    low, high = share.low if gap.low > 0 else min(share.low, 0.5), share.high if gap.high < 0 else max(share.high, 0.5)
    verdict = "drift first" if low > 0.5 else "sharpening first" if high < 0.5 else "undecided"
    return Precedence(share.value, low, high, sign_test(wins, n), len(seeds), verdict, note)


def share_later(ones: Sequence[Floats], others: Sequence[Floats]) -> tuple[Estimate, float]:
    """How often one of `ones` begins after one of `others`, with ties counted half, and its p. Both hold one array of onsets per seed.

    Several seeds with both have Student's interval and a sign test over seeds; one seed has Mann and Whitney's p over heads.

    >>> share_later([np.array([4.0, 8.0])], [np.array([1.0, 4.0])])[0].value
    0.875
    """
    from scipy.stats import mannwhitneyu

    pairs = [(a[np.isfinite(a)], b[np.isfinite(b)]) for a, b in zip(ones, others, strict=True)]
    pairs = [(a, b) for a, b in pairs if len(a) and len(b)]
    shares = [float((np.sign(a[:, None] - b[None]) / 2 + 0.5).mean()) for a, b in pairs]
    if not shares:
        return Estimate(NAN), NAN
    if len(shares) == 1:
        return Estimate(shares[0]), float(mannwhitneyu(*pairs[0]).pvalue)
    return student(shares, (0.0, 1.0)), sign_test(sum(x > 0.5 for x in shares), sum(x != 0.5 for x in shares))


Where = tuple[str, int, int | None]
"""Stack, layer and head; no head for a number of the whole layer."""
Onsets = dict[Where, dict[Seed, float]]
"""Steps by place and seed."""


class Tracks:
    """Numbers over the steps: one `Track` per metric, kind, stack, layer, head and seed."""

    def __init__(self, rows: pd.DataFrame) -> None:
        self._by_place: dict[tuple[str, str], dict[Where, dict[Seed, Track]]] = {}
        keys = ["metric", "kind", "stack", "layer", "head", "seed"]
        for _, own in rows[rows["layer"].notna()].groupby(keys, dropna=False, sort=True):
            metric, kind, stack, layer, head, seed = own[keys].iloc[0]
            where = str(stack), int(layer), None if pd.isna(head) else int(head)
            by_seed = self._by_place.setdefault((str(metric), str(kind)), {}).setdefault(where, {})
            by_seed[None if pd.isna(seed) else int(seed)] = Track(*own[["step", "value", "low", "high"]].to_numpy(float).T)

    def of(self, metric: str, kind: str, *, heads: bool) -> dict[Where, dict[Seed, Track]]:
        """The tracks of each seed by stack, layer and head, either those of heads or those of whole layers."""
        by_place = self._by_place.get((metric, kind), {})
        return {where: own for where, own in by_place.items() if (where[2] is not None) == heads}


def onset_rows(suite: MeasuredSuite, tracks: Tracks, levels: dict[str, float]) -> Iterator[dict[str, Any]]:
    """Yield rows with the onsets of drift, sharpening and alignment, by head or hidden layer, and rows with the order of the first two."""
    parts = [("onset_drift", DRIFT, kind, kind != "hidden") for kind in ("query", "key", "hidden")]
    parts += [("onset_sharpening", SHARPNESS, "attention", True), ("onset_alignment", COSINE, "attention", True)]
    each: dict[tuple[str, str], Onsets] = {}
    for name, metric, kind, heads in parts:
        for (stack, layer, head), own in tracks.of(metric, kind, heads=heads).items():
            followed = {seed: own[seed] for seed in suite.curve_seeds if seed in own}
            if not followed:
                continue
            each.setdefault((name, kind), {})[stack, layer, head] = {seed: onset(track).value for seed, track in followed.items()}
            start = onset_over_seeds(list(followed.values()))
            note = f"first step past 10 % of the change of {metric} from step {suite.ends[0]} to {suite.ends[1]}"
            where = {"stack": stack, "kind": kind, "layer": layer, "head": head}
            yield {"metric": name, "value": start, "note": note, "n": len(followed), **where}
    yield from _precedence_rows(suite, each)
    yield from _opposite_rows(suite, tracks, each.get(("onset_alignment", "attention"), {}), levels)


def _opposite_rows(suite: MeasuredSuite, tracks: Tracks, begins: Onsets, levels: dict[str, float]) -> Iterator[dict[str, Any]]:
    """Rows of whether heads that end in opposite directions begin later than those that end in the same; both beyond the chance level."""
    for stack, level in levels.items():
        heads = {where: own for where, own in tracks.of(COSINE, "attention", heads=True).items() if where[0] == stack and where in begins}
        parts: dict[int, list[Floats]] = {1: [], -1: []}
        for seed, sign in product(suite.curve_seeds, parts):
            ends = [where for where, own in heads.items() if seed in own and sign * own[seed].values[-1] > level]
            parts[sign].append(np.array([begins[where][seed] for where in ends]))
        share, p = share_later(parts[-1], parts[1])
        sure = share.low > 0.5 or share.high < 0.5  # one seed has no interval, because its heads share the chance of one training
        verdict = ("later" if share.value > 0.5 else "earlier") if sure else "undecided"
        count = [sum(map(len, own)) for own in parts.values()]
        note = f"how often a head that ends opposite ({count[1]}) begins after one that ends the same way ({count[0]}); {format_p_value(p)}"
        seeds = sum(bool(np.isfinite(a).any() and np.isfinite(b).any()) for a, b in zip(parts[-1], parts[1], strict=True))
        where = {"stack": stack, "kind": "attention", "n": seeds, "null": 0.5}
        yield {"metric": "opposite_later", "value": share, "note": note, "verdict": verdict, **where}


def _precedence_rows(suite: MeasuredSuite, each: dict[tuple[str, str], Onsets]) -> Iterator[dict[str, Any]]:
    """Rows of which comes first: one per stack and, if there are several seeds, also one per seed."""
    queries, keys = each.get(("onset_drift", "query"), {}), each.get(("onset_drift", "key"), {})
    sharp = each.get(("onset_sharpening", "attention"), {})
    for stack in dict.fromkeys(where[0] for where in sharp):
        heads = [where for where in sharp if where[0] == stack]
        shared = {where: _shared_key(keys, queries, where) for where in heads}
        sharpening = _onset_array(suite, [sharp[where] for where in heads])
        # A head drifts as soon as its queries or its keys do; fmin ignores a side without an onset.
        drift = np.fmin(_onset_array(suite, [queries.get(where, {}) for where in heads]), _onset_array(suite, list(shared.values())))
        parts: list[tuple[Seed, Floats, Floats]] = [(None, drift, sharpening)]
        if len(suite.curve_seeds) > 1:
            parts += [(seed, drift[i : i + 1], sharpening[i : i + 1]) for i, seed in enumerate(suite.curve_seeds)]
        for seed, first, second in parts:
            order = precedence(first, second)
            note = f"part of heads whose queries or keys drift before their rows sharpen; {order.note}; sign test {format_p_value(order.p)}"
            value, at = Estimate(order.value, order.low, order.high), {"stack": stack, "kind": "attention", "seed": seed}
            yield {"metric": "precedence", "value": value, "note": note, "verdict": order.verdict, "n": order.units, "null": 0.5, **at}


def _onset_array(suite: MeasuredSuite, each: list[dict[Seed, float]]) -> Floats:
    """(seeds, heads) onsets, NaN for heads without one."""
    return np.array([[own.get(seed, NAN) for own in each] for seed in suite.curve_seeds])


def _shared_key(keys: Onsets, queries: Onsets, where: Where) -> dict[Seed, float]:
    """The onsets of the key of a query; several queries may share a key."""
    stack, layer, head = where
    count = [sum(1 for other in side if other[:2] == (stack, layer)) for side in (keys, queries)]
    return keys.get((stack, layer, (head or 0) * count[0] // max(count[1], 1)), {})


def change_rows(suite: MeasuredSuite, tracks: Tracks) -> Iterator[dict[str, Any]]:
    """Rows of the last step minus the first, by layer and for the mean over the blocks of a stack."""
    for kind, metric in CHANGES:
        layers = tracks.of(metric, kind, heads=False)
        where = {"metric": f"{metric}_change", "kind": kind}
        for (stack, layer, _), own in layers.items():
            yield where | _change_columns(suite, list(_between_ends(suite, own).values())) | {"stack": stack, "layer": layer}
        for stack in dict.fromkeys(key[0] for key in layers):
            blocks = [_between_ends(suite, own) for key, own in layers.items() if key[0] == stack and (kind != "hidden" or key[1] > 0)]
            seeds = [seed for seed in suite.complete_seeds if blocks and all(seed in own for own in blocks)]
            means = [_mean_track([own[seed] for own in blocks]) for seed in seeds]
            yield where | _change_columns(suite, means, f"mean over {len(blocks)} layers") | {"stack": stack}


def _change_columns(suite: MeasuredSuite, own: list[Track], note: str = "") -> dict[str, Any]:
    if not own:
        return {"value": Estimate(NAN), "note": "no seed has both ends"}
    difference = change(own)
    words = f"step {suite.ends[1]} less step {suite.ends[0]}" + (f", {note}" if note else "")
    return {"value": difference, "note": words, "verdict": direction(difference), "n": len(own)}


def _between_ends(suite: MeasuredSuite, own: dict[Seed, Track]) -> dict[Seed, Track]:
    """The tracks from the suite's first to its last step, for seeds with a row at both: a cell may lack a row."""
    first, last = suite.ends
    known = {seed: own[seed] for seed in suite.complete_seeds if seed in own}
    tracks = {seed: _select_steps(track, (track.steps >= first) & (track.steps <= last)) for seed, track in known.items()}
    return {seed: track for seed, track in tracks.items() if first in track.steps and last in track.steps}


def _select_steps(track: Track, chosen: NDArray[np.bool_]) -> Track:
    return Track(track.steps[chosen], track.values[chosen], track.low[chosen], track.high[chosen])


def _mean_track(own: Sequence[Track]) -> Track:
    """The mean over layers, at the steps that all of them have."""
    # Layers see the same documents, so their errors are taken to go together, and the ends of intervals are averaged too.
    shared = reduce(np.intersect1d, [track.steps for track in own])
    parts = [_select_steps(track, np.isin(np.arange(len(track.steps)), np.searchsorted(track.steps, shared))) for track in own]
    return Track(shared, *(np.mean([getattr(track, name) for track in parts], axis=0) for name in ("values", "low", "high")))
