"""Rows about the directions of mean queries and keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from isoscope.core.numerics import Floats
from isoscope.estimation.inference import Estimate, holm, student
from isoscope.studies.training_dynamics.head_alignment import aligned, alignment, fallen, shuffled_labels, squared_cosines
from isoscope.studies.training_dynamics.suite_measures import (
    COSINE,
    RULE,
    Gathered,
    MeasuredSuite,
    Place,
    Seed,
    chance_levels,
    extreme_heads,
    last_cosines,
)


def directions(suite: MeasuredSuite, rows: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """The two chosen heads; the chance level; and by layer the part of heads that surely go the same way, or opposite ways."""
    last, levels = last_cosines(suite, rows), chance_levels(suite, rows)
    for name, word, head in zip(("same_direction", "opposite_direction"), ("largest", "smallest"), extreme_heads(suite, rows), strict=True):
        if head is not None:
            one = last[last["stack"].eq(head.place.stack) & last["layer"].eq(head.place.layer) & last["head"].eq(head.head)].iloc[0]
            where = {"stack": head.place.stack, "kind": "attention", "layer": head.place.layer, "head": head.head, "seed": suite.main}
            numbers = {"value": Estimate(one["value"], one["low"], one["high"]), "d": int(one["d"]), "null": 0.0, "null_sd": one["null_sd"]}
            yield {"metric": name, "note": RULE.format(word), **where, **numbers}
    every = rows[rows["metric"].eq(COSINE) & rows["kind"].eq("attention") & rows["head"].notna() & rows["step"].eq(suite.ends[1])]
    for stack, own in last.groupby("stack", sort=False):
        level = levels[str(stack)]
        note = f"|cos(Q̄, K̄)| that {len(own)} heads exceed anywhere with 5 % chance at most (Bonferroni)"
        where = {"stack": stack, "kind": "attention", "d": int(own["d"].iloc[0])}
        yield {"metric": "qk_chance", "value": Estimate(level), "note": note, "n": len(own), **where}
        for layer, mine in every[every["stack"].eq(stack)].groupby("layer", sort=True):
            at = where | {"layer": layer, "n": len(mine)}
            value, below, above = (mine[name].to_numpy(float) for name in ("value", "high", "low"))
            note = f"part of heads, over seeds, whose interval lies beyond the chance level {level:.3f} at the last step"
            yield {"metric": "same_direction_heads", "value": Estimate(float((np.fmin(value, above) > level).mean())), "note": note, **at}
            yield {
                "metric": "opposite_direction_heads",
                "value": Estimate(float((np.fmax(value, below) < -level).mean())),
                "note": note,
                **at,
            }


def alignments(suite: MeasuredSuite, seen: Gathered) -> Iterator[dict[str, Any]]:
    """T by layer, step and seed; its p over seeds by layer and step (Holm over layers) and of all layers at once; its change."""
    squares = {place: {at: squared_cosines(*pair) for at, pair in own.items()} for place, own in seen.means.items()}
    for (place, seed, step), cosine in seen.joined.items():
        where = {"kind": "attention", "stack": place.stack, "layer": place.layer, "seed": seed, "step": step}
        numbers = {"n": cosine.n, "d": cosine.d, "null": cosine.null, "null_sd": cosine.null_sd, "interval_about": cosine.interval_about}
        value = Estimate(cosine, cosine.low, cosine.high, "heads side by side as one vector")
        yield {"metric": "qk_cosine_joined", "value": value, **where, **numbers}
    for stack in dict.fromkeys(place.stack for place in squares):
        own = {place: found for place, found in squares.items() if place.stack == stack}
        yield from _by_seed(seen, own)
        adjusted: dict[Place, float] = {}
        for step in sorted({step for found in own.values() for _, step in found}):
            blocks = {place: [block for (_, at), block in found.items() if at == step] for place, found in own.items()}
            raw = {place: alignment(parts).p for place, parts in blocks.items()}
            adjusted = dict(zip(raw, holm(np.array(list(raw.values()))).tolist(), strict=True))
            whole = alignment([block for parts in blocks.values() for block in parts])
            where = {"metric": "alignment_p", "kind": "attention", "stack": stack, "step": step}
            for place, p in adjusted.items():
                note = f"p = {raw[place]:.3g} before Holm's adjustment over {len(raw)} layers"
                yield where | {"value": Estimate(p), "layer": place.layer, "note": note, "n": sum(map(len, blocks[place]))}
            yield where | {"value": Estimate(whole.p), "note": f"all layers at once, T = {whole.value:.3g}", "n": whole.heads}
            if step == suite.ends[1]:
                yield from _aligned(suite, seen, own, adjusted)


def _by_seed(seen: Gathered, own: dict[Place, dict[tuple[Seed, int], Floats]]) -> Iterator[dict[str, Any]]:
    """T of each layer, seed and step."""
    for place, found in own.items():
        for (seed, step), block in found.items():
            one, over = alignment([block]), student(np.diag(block), (0.0, 1.0))
            value = Estimate(one.value, over.low, over.high, "mean of cos²(Q̄, K̄) over heads, interval over heads")
            where = {"kind": "attention", "stack": place.stack, "layer": place.layer, "seed": seed, "step": step}
            d = seen.means[place][seed, step][0].shape[1]
            numbers = {"n": one.heads, "d": d, "null": one.null, "null_sd": one.null_sd}
            yield {"metric": "alignment", "value": value, "note": f"p = {one.p:.3g} of this seed and layer alone", **where, **numbers}


def _aligned(
    suite: MeasuredSuite, seen: Gathered, own: dict[Place, dict[tuple[Seed, int], Floats]], adjusted: dict[Place, float]
) -> Iterator[dict[str, Any]]:
    """The change of T from the first to the last step, with the verdict; and what it is with labels shuffled."""
    first, last = suite.ends
    parts = {}
    for place, found in own.items():
        seeds = [seed for seed in suite.whole if (seed, first) in found and (seed, last) in found]
        if not seeds:
            continue
        ends = [(np.diag(found[seed, first]), np.diag(found[seed, last])) for seed in seeds]
        moved = [float(b.mean() - a.mean()) for a, b in ends]
        nulls = [alignment([found[seed, last]]).null for seed in seeds]
        if len(seeds) > 1:
            grown, excess = student(moved), student([b.mean() - null for (_, b), null in zip(ends, nulls, strict=True)])
        else:
            # Heads of one training share its chance: an interval over them is drawn, and decides nothing.
            grown, excess = student(ends[0][1] - ends[0][0]), Estimate(float(ends[0][1].mean() - nulls[0]))
        parts[place] = seeds, moved, grown, excess
    fell = fallen([(grown if len(seeds) > 1 else Estimate(grown.value), excess) for seeds, _, grown, excess in parts.values()])
    for (place, (seeds, moved, grown, _)), down in zip(parts.items(), fell, strict=True):
        said = aligned(adjusted[place], moved, down)
        where = {"kind": "attention", "stack": place.stack, "layer": place.layer}
        note = f"T at step {last} less T at step {first}, interval over {f'{len(seeds)} seeds' if len(seeds) > 1 else 'heads'}; "
        note += f"up in {sum(m > 0 for m in moved)} of {len(seeds)} seeds; Holm's p = {adjusted[place]:.3g}"
        yield {"metric": "alignment_change", "value": grown, "note": note, "verdict": said, "n": len(seeds), **where}
        control = shuffled_labels([seen.means[place][seed, last] for seed in seeds])
        note = f"T with means paired whatever their head and label, 95 % of the deals; p of the T that was found {control.p:.3g}"
        value = Estimate(control.mean, control.low, control.high)
        yield {"metric": "alignment_shuffled", "value": value, "note": note, "n": len(seeds), "step": last, **where}
