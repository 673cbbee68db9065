"""Rows about when a change begins, which comes first, and how large it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from isoscope.core.numerics import Floats
from isoscope.estimation.inference import Estimate
from isoscope.studies.training_dynamics.onset import Track, change, direction, later, onset, onset_over_seeds, precedence
from isoscope.studies.training_dynamics.suite_measures import CHANGES, COSINE, DRIFT, NAN, SHARPNESS, MeasuredSuite, Seed

Where = tuple[str, int, int | None]
"""Stack, layer and head; no head where it is of the whole layer."""
Onsets = dict[Where, dict[Seed, float]]
"""Steps by place and seed."""


class Tracks:
    """Numbers over the steps, by metric, kind, stack, layer and head, a `Track` a seed."""

    def __init__(self, rows: pd.DataFrame) -> None:
        self._found: dict[tuple[str, str], dict[Where, dict[Seed, Track]]] = {}
        keys = ["metric", "kind", "stack", "layer", "head", "seed"]
        for _, own in rows[rows["layer"].notna()].groupby(keys, dropna=False, sort=True):
            metric, kind, stack, layer, head, seed = own[keys].iloc[0]
            where = str(stack), int(layer), None if pd.isna(head) else int(head)
            by_seed = self._found.setdefault((str(metric), str(kind)), {}).setdefault(where, {})
            by_seed[None if pd.isna(seed) else int(seed)] = Track(*own[["step", "value", "low", "high"]].to_numpy(float).T)

    def of(self, metric: str, kind: str, *, heads: bool) -> dict[Where, dict[Seed, Track]]:
        """By stack, layer and head: the tracks of each seed; of heads, or of layers as a whole."""
        found = self._found.get((metric, kind), {})
        return {where: own for where, own in found.items() if (where[2] is not None) == heads}


def onsets(suite: MeasuredSuite, tracks: Tracks, levels: dict[str, float]) -> Iterator[dict[str, Any]]:
    """When drift, sharpening and alignment begin, by head (of hidden states by layer); and which of the first two begins first."""
    parts = [("onset_drift", DRIFT, kind, kind != "hidden") for kind in ("query", "key", "hidden")]
    parts += [("onset_sharpening", SHARPNESS, "attention", True), ("onset_alignment", COSINE, "attention", True)]
    each: dict[tuple[str, str], Onsets] = {}
    for name, metric, kind, heads in parts:
        for (stack, layer, head), own in tracks.of(metric, kind, heads=heads).items():
            followed = {seed: own[seed] for seed in suite.followed if seed in own}
            if not followed:
                continue
            each.setdefault((name, kind), {})[stack, layer, head] = {seed: onset(track).value for seed, track in followed.items()}
            found = onset_over_seeds(list(followed.values()))
            note = f"first step past 10 % of the change of {metric} from step {suite.ends[0]} to {suite.ends[1]}"
            where = {"stack": stack, "kind": kind, "layer": layer, "head": head}
            yield {"metric": name, "value": found, "note": note, "n": len(followed), **where}
    yield from _precedences(suite, each)
    yield from _opposite(suite, tracks, each.get(("onset_alignment", "attention"), {}), levels)


def _opposite(suite: MeasuredSuite, tracks: Tracks, begins: Onsets, levels: dict[str, float]) -> Iterator[dict[str, Any]]:
    """Whether heads that end in opposite directions begin later than heads that end in the same; both beyond the chance level."""
    for stack, level in levels.items():
        heads = {where: own for where, own in tracks.of(COSINE, "attention", heads=True).items() if where[0] == stack and where in begins}
        parts: dict[int, list[Floats]] = {1: [], -1: []}
        for seed, sign in product(suite.followed, parts):
            ends = [where for where, own in heads.items() if seed in own and sign * own[seed].values[-1] > level]
            parts[sign].append(np.array([begins[where][seed] for where in ends]))
        found, p = later(parts[-1], parts[1])
        sure = found.low > 0.5 or found.high < 0.5  # of one seed there is no interval: its heads share the chance of one training
        said = ("later" if found.value > 0.5 else "earlier") if sure else "undecided"
        count = [sum(map(len, own)) for own in parts.values()]
        note = f"how often a head that ends opposite ({count[1]}) begins after one that ends the same way ({count[0]}); p = {p:.3g}"
        seeds = sum(bool(np.isfinite(a).any() and np.isfinite(b).any()) for a, b in zip(parts[-1], parts[1], strict=True))
        where = {"stack": stack, "kind": "attention", "n": seeds, "null": 0.5}
        yield {"metric": "opposite_later", "value": found, "note": note, "verdict": said, **where}


def _precedences(suite: MeasuredSuite, each: dict[tuple[str, str], Onsets]) -> Iterator[dict[str, Any]]:
    """Which comes first, a row a stack and, where there are several seeds, one a seed too."""
    queries, keys = each.get(("onset_drift", "query"), {}), each.get(("onset_drift", "key"), {})
    sharp = each.get(("onset_sharpening", "attention"), {})
    for stack in dict.fromkeys(where[0] for where in sharp):
        heads = [where for where in sharp if where[0] == stack]
        shared = {where: _shared_key(keys, queries, where) for where in heads}
        sharpening = _array(suite, [sharp[where] for where in heads])
        drift = np.fmin(_array(suite, [queries.get(where, {}) for where in heads]), _array(suite, list(shared.values())))
        parts: list[tuple[Seed, Floats, Floats]] = [(None, drift, sharpening)]
        if len(suite.followed) > 1:
            parts += [(seed, drift[i : i + 1], sharpening[i : i + 1]) for i, seed in enumerate(suite.followed)]
        for seed, first, second in parts:
            found = precedence(first, second)
            note = f"part of heads whose queries or keys drift before their rows sharpen; {found.note}; sign test p = {found.p:.3g}"
            value, at = Estimate(found.value, found.low, found.high), {"stack": stack, "kind": "attention", "seed": seed}
            yield {"metric": "precedence", "value": value, "note": note, "verdict": found.verdict, "n": found.units, "null": 0.5, **at}


def _array(suite: MeasuredSuite, each: list[dict[Seed, float]]) -> Floats:
    """(seeds, heads) onsets, NaN where there is none."""
    return np.array([[own.get(seed, NAN) for own in each] for seed in suite.followed])


def _shared_key(keys: Onsets, queries: Onsets, where: Where) -> dict[Seed, float]:
    """The onsets of the key that a query looks at, where several share one."""
    stack, layer, head = where
    count = [sum(1 for other in side if other[:2] == (stack, layer)) for side in (keys, queries)]
    return keys.get((stack, layer, (head or 0) * count[0] // max(count[1], 1)), {})


def changes(suite: MeasuredSuite, tracks: Tracks) -> Iterator[dict[str, Any]]:
    """The last step less the first, by layer, and of the mean over the blocks of a stack."""
    for kind, metric in CHANGES:
        found = tracks.of(metric, kind, heads=False)
        where = {"metric": f"{metric}_change", "kind": kind}
        for (stack, layer, _), own in found.items():
            yield where | _changed(suite, list(_between_ends(suite, own).values())) | {"stack": stack, "layer": layer}
        for stack in dict.fromkeys(key[0] for key in found):
            blocks = [_between_ends(suite, own) for key, own in found.items() if key[0] == stack and (kind != "hidden" or key[1] > 0)]
            means = [_mean_track([own[seed] for own in blocks]) for seed in suite.whole if blocks and all(seed in own for own in blocks)]
            yield where | _changed(suite, means, f"mean over {len(blocks)} layers") | {"stack": stack}


def _changed(suite: MeasuredSuite, own: list[Track], note: str = "") -> dict[str, Any]:
    if not own:
        return {"value": Estimate(NAN), "note": "no seed has both ends"}
    found = change(own)
    said = f"step {suite.ends[1]} less step {suite.ends[0]}" + (f", {note}" if note else "")
    return {"value": found, "note": said, "verdict": direction(found), "n": len(own)}


def _between_ends(suite: MeasuredSuite, own: dict[Seed, Track]) -> dict[Seed, Track]:
    """The tracks from the suite's first to its last step, of the seeds that have a row at both: rows may be missing where cells are not."""
    first, last = suite.ends
    tracks = {seed: _at(own[seed], (own[seed].steps >= first) & (own[seed].steps <= last)) for seed in suite.whole if seed in own}
    return {seed: track for seed, track in tracks.items() if first in track.steps and last in track.steps}


def _at(track: Track, chosen: NDArray[np.bool_]) -> Track:
    return Track(track.steps[chosen], track.values[chosen], track.low[chosen], track.high[chosen])


def _mean_track(own: Sequence[Track]) -> Track:
    """The mean over layers at the steps that all have; layers see the same documents, so that their intervals are taken to go together."""
    shared = reduce(np.intersect1d, [track.steps for track in own])
    parts = [_at(track, np.isin(np.arange(len(track.steps)), np.searchsorted(track.steps, shared))) for track in own]
    return Track(shared, *(np.mean([getattr(track, name) for track in parts], axis=0) for name in ("values", "low", "high")))
