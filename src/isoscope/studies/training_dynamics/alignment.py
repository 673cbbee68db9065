"""Do the mean query and the mean key of a head point along one line more than chance? Against the keys of other heads of the same layer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from isoscope.claims.claim import Outcome
from isoscope.claims.deciding import adjusted_outcomes
from isoscope.core.numerics import LEVEL, Floats
from isoscope.core.wording import format_p_value
from isoscope.estimation.drift_test import DRAWS, list_orders
from isoscope.estimation.inference import Estimate, holm, least_of, student
from isoscope.studies.training_dynamics.gather import (
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

NAN = float("nan")


@dataclass(frozen=True)
class Alignment:
    """T, the mean over heads of cos²(Q̄, K̄); its null from pairs of different heads, with standard deviation; and its one-sided p."""

    value: float
    null: float
    null_sd: float
    p: float
    heads: int


def squared_cosines(a: Floats, b: Floats) -> Floats:
    """(m, m) cos² of each of the means a (m, e) with each of b (m, e); 0 if one of them has no direction.

    >>> squared_cosines(np.array([[2.0, 0.0]]), np.array([[1.0, 1.0]])).round(3).tolist()
    [[0.5]]
    """
    lengths = [np.linalg.norm(x, axis=-1)[:, None] for x in (a, b)]
    u, v = (np.divide(x, length, out=np.zeros_like(x), where=length > 0) for x, length in zip((a, b), lengths, strict=True))
    return np.asarray((u @ v.T) ** 2)


def alignment(blocks: Sequence[Floats], *, seed: int = 0) -> Alignment:
    """T of blocks of squared cosines (h, h), with its permutation null. A block holds queries by keys, for one layer of one seed.

    The permutations pair the queries of a block with its keys anew: in every way if there are few, else in 9,999. p is the share of
    permutations, including the measured one, with a T at least as large. `null` is the mean over pairs of different heads, and `null_sd`
    the standard deviation of T if each head's own pair has this value. A layer of one head has no null.

    >>> perfect = alignment([np.eye(4)])
    >>> perfect.value, perfect.null, round(perfect.p, 4)
    (1.0, 0.0, 0.0417)
    """
    heads = sum(len(block) for block in blocks)
    value = float(sum(np.trace(block) for block in blocks) / heads) if heads else NAN
    useful = [block for block in blocks if len(block) > 1]
    if not useful:
        return Alignment(value, NAN, NAN, NAN, heads)
    sizes = tuple(len(block) for block in useful)
    own = float(sum(np.trace(block) for block in useful) / sum(sizes))
    orders, exact = list_orders(sizes, seed)
    # The measured pairing is one of the permutations, and must reach itself whatever the order of the sum.
    reached = int((_permuted_means(useful, orders) >= own - 1e-12).sum())
    p = reached / len(orders) if exact else (reached + 1) / (len(orders) + 1)
    others = [(block.sum() - np.trace(block)) / (len(block) * (len(block) - 1)) for block in useful]
    null = float(np.average(others, weights=sizes))
    # Own pairs take the mean of the others: if heads are aligned, their own values would widen the null that they are compared with.
    blank = [np.where(np.eye(len(block), dtype=bool), other, block) for block, other in zip(useful, others, strict=True)]
    return Alignment(value, null, float(_permuted_means(blank, orders).std()), p, heads)


def _permuted_means(blocks: Sequence[Floats], orders: np.ndarray) -> Floats:
    """(permutations,) T of every permutation."""
    total, at = np.zeros(len(orders)), 0
    for block in blocks:
        h = len(block)
        total += block[np.arange(h), orders[:, at : at + h] - at].sum(1)
        at += h
    return np.asarray(total / at)


def shuffle_labels(means: Sequence[tuple[Floats, Floats]], *, seed: int = 0) -> tuple[Estimate, float]:
    """The control with shuffled labels: all 2h means of a layer, queries and keys alike, are paired at random.

    `means` holds pairs of Q̄ and K̄, each (h, e), for one layer of one seed. Returns the mean T of the shuffles with the ends of 95 % of
    them, and the share of them that reach the measured T.
    """
    rng = np.random.default_rng(seed)
    useful = [(q, k) for q, k in means if len(q) > 1]
    if not useful:
        return Estimate(NAN), NAN
    heads = sum(len(q) for q, _ in useful)
    own, total = 0.0, np.zeros(DRAWS)
    for q, k in useful:
        squares, h = squared_cosines(np.concatenate([q, k]), np.concatenate([q, k])), len(q)
        own += float(np.trace(squares[:h, h:]))
        order = rng.permuted(np.tile(np.arange(2 * h), (DRAWS, 1)), axis=1)
        total += squares[order[:, :h], order[:, h:]].sum(1)
    # The tolerance counts ties in spite of rounding, and the measured pairing counts as one of the shuffles, so p is never 0.
    reached = int((total >= own - 1e-12).sum())
    low, high = np.quantile(total / heads, [0.025, 0.975])
    return Estimate(float(total.mean() / heads), float(low), float(high)), (reached + 1) / (DRAWS + 1)


def surely_falls(pairs: Sequence[tuple[Estimate, Estimate]]) -> list[bool]:
    """Whether alignment surely does not grow in each layer or training: its change, or T minus its null at the end, is below 0.

    Holm's adjustment is over the layers or trainings, Bonferroni's over the two ways to fail.
    """
    least = [least_of(pair) for pair in pairs]
    return [word == "fails" for word in adjusted_outcomes(least, [0.0] * len(least))]


def alignment_outcome(adjusted_p: float, changes: Sequence[float], fell: bool) -> Outcome:
    """Whether mean queries and keys align in training.

    It holds if T at the end is above its null (Holm's p below 0.05) and above T at the start in every seed. It fails if T surely fell.

    >>> alignment_outcome(0.01, [0.1, 0.2], False), alignment_outcome(0.6, [-0.1], True), alignment_outcome(0.01, [0.1, -0.2], False)
    ('holds', 'fails', 'undecided')
    """
    if adjusted_p < LEVEL and len(changes) and min(changes) > 0:
        return "holds"
    return "fails" if fell else "undecided"


def direction_rows(suite: MeasuredSuite, rows: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Rows of the two chosen heads, of the chance level, and of the shares of heads that surely point the same or opposite ways."""
    last, levels = last_cosines(suite, rows), chance_levels(suite, rows)
    for name, word, head in zip(("same_direction", "opposite_direction"), ("largest", "smallest"), extreme_heads(suite, rows), strict=True):
        if head is not None:
            row = last[last["stack"].eq(head.place.stack) & last["layer"].eq(head.place.layer) & last["head"].eq(head.head)].iloc[0]
            where = {"stack": head.place.stack, "kind": "attention", "layer": head.place.layer, "head": head.head, "seed": suite.main}
            numbers = {"value": Estimate(row["value"], row["low"], row["high"]), "d": int(row["d"]), "null": 0.0, "null_sd": row["null_sd"]}
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
            same, opposite = np.fmin(value, above) > level, np.fmax(value, below) < -level
            for name, heads in (("same_direction_heads", same), ("opposite_direction_heads", opposite)):
                yield {"metric": name, "value": Estimate(float(heads.mean())), "note": note, **at}


def alignment_rows(suite: MeasuredSuite, seen: Gathered) -> Iterator[dict[str, Any]]:
    """Rows of T by layer, step and seed; of its p over seeds, by layer (Holm over layers) and for all layers at once; and of its change."""
    squares = {place: {at: squared_cosines(*pair) for at, pair in own.items()} for place, own in seen.means.items()}
    for (place, seed, step), cosine in seen.joined.items():
        where = {"kind": "attention", "stack": place.stack, "layer": place.layer, "seed": seed, "step": step}
        numbers = {"n": cosine.n, "d": cosine.d, "null": cosine.null, "null_sd": cosine.null_sd, "interval_about": cosine.interval_about}
        value = Estimate(cosine, cosine.low, cosine.high, "heads side by side as one vector")
        yield {"metric": "qk_cosine_joined", "value": value, **where, **numbers}
    for stack in dict.fromkeys(place.stack for place in squares):
        own = {place: by_checkpoint for place, by_checkpoint in squares.items() if place.stack == stack}
        yield from _rows_by_seed(seen, own)
        adjusted: dict[Place, float] = {}
        for step in sorted({step for by_checkpoint in own.values() for _, step in by_checkpoint}):
            blocks = {place: [block for (_, at), block in by_checkpoint.items() if at == step] for place, by_checkpoint in own.items()}
            raw = {place: alignment(parts).p for place, parts in blocks.items()}
            adjusted = dict(zip(raw, holm(np.array(list(raw.values()))).tolist(), strict=True))
            whole = alignment([block for parts in blocks.values() for block in parts])
            where = {"metric": "alignment_p", "kind": "attention", "stack": stack, "step": step}
            for place, p in adjusted.items():
                note = f"{format_p_value(raw[place])} before Holm's adjustment over {len(raw)} layers"
                yield where | {"value": Estimate(p), "layer": place.layer, "note": note, "n": sum(map(len, blocks[place]))}
            yield where | {"value": Estimate(whole.p), "note": f"all layers at once, T = {whole.value:.3g}", "n": whole.heads}
            if step == suite.ends[1]:
                yield from _change_rows(suite, seen, own, adjusted)


def _rows_by_seed(seen: Gathered, own: dict[Place, dict[tuple[Seed, int], Floats]]) -> Iterator[dict[str, Any]]:
    """T of each layer, seed and step."""
    for place, by_checkpoint in own.items():
        for (seed, step), block in by_checkpoint.items():
            alone, over_heads = alignment([block]), student(np.diag(block), (0.0, 1.0))
            value = Estimate(alone.value, over_heads.low, over_heads.high, "mean of cos²(Q̄, K̄) over heads, interval over heads")
            where = {"kind": "attention", "stack": place.stack, "layer": place.layer, "seed": seed, "step": step}
            d = seen.means[place][seed, step][0].shape[1]
            numbers = {"n": alone.heads, "d": d, "null": alone.null, "null_sd": alone.null_sd}
            note = f"{format_p_value(alone.p)} of this seed and layer alone"
            yield {"metric": "alignment", "value": value, "note": note, **where, **numbers}


def _change_rows(
    suite: MeasuredSuite, seen: Gathered, own: dict[Place, dict[tuple[Seed, int], Floats]], adjusted: dict[Place, float]
) -> Iterator[dict[str, Any]]:
    """Rows of the change of T from the first to the last step, with the verdict, and of T with labels shuffled."""
    first, last = suite.ends
    parts = {}
    for place, blocks in own.items():
        seeds = [seed for seed in suite.complete_seeds if (seed, first) in blocks and (seed, last) in blocks]
        if not seeds:
            continue
        ends = [(np.diag(blocks[seed, first]), np.diag(blocks[seed, last])) for seed in seeds]
        moved = [float(b.mean() - a.mean()) for a, b in ends]
        nulls = [alignment([blocks[seed, last]]).null for seed in seeds]
        if len(seeds) > 1:
            grown, excess = student(moved), student([b.mean() - null for (_, b), null in zip(ends, nulls, strict=True)])
        else:
            # The heads of one training share its chance, so their interval is drawn but decides nothing.
            grown, excess = student(ends[0][1] - ends[0][0]), Estimate(float(ends[0][1].mean() - nulls[0]))
        parts[place] = seeds, moved, grown, excess
    fell = surely_falls([(grown if len(seeds) > 1 else Estimate(grown.value), excess) for seeds, _, grown, excess in parts.values()])
    for (place, (seeds, moved, grown, _)), down in zip(parts.items(), fell, strict=True):
        outcome = alignment_outcome(adjusted[place], moved, down)
        where = {"kind": "attention", "stack": place.stack, "layer": place.layer}
        note = f"T at step {last} less T at step {first}, interval over {f'{len(seeds)} seeds' if len(seeds) > 1 else 'heads'}; "
        note += f"up in {sum(m > 0 for m in moved)} of {len(seeds)} seeds; {format_p_value(adjusted[place])} after Holm's adjustment"
        yield {"metric": "alignment_change", "value": grown, "note": note, "verdict": outcome, "n": len(seeds), **where}
        control, p = shuffle_labels([seen.means[place][seed, last] for seed in seeds])
        note = f"T with means paired at random, the ends of 95 % of the shuffles; {format_p_value(p)} of the measured T"
        yield {"metric": "alignment_shuffled", "value": control, "note": note, "n": len(seeds), "step": last, **where}
