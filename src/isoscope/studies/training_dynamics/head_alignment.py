"""Do the mean query and the mean key of a head point along one line more than chance? Against the keys of other heads of the same layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from isoscope.claims.claim import Outcome
from isoscope.claims.deciding import adjusted_outcomes
from isoscope.core.numerics import LEVEL, Floats
from isoscope.estimation.drift_test import DRAWS, rearranged
from isoscope.estimation.inference import Estimate, least_of

NAN = float("nan")


@dataclass(frozen=True)
class Alignment:
    """T, the mean over heads of cos²(Q̄, K̄), and what pairs of different heads give: mean, sd, and p of T, one-sided."""

    value: float
    null: float
    null_sd: float
    p: float
    heads: int


def squared_cosines(a: Floats, b: Floats) -> Floats:
    """(m, m) cos² of each of the means a (m, e) with each of b (m, e); 0 where one has no direction.

    >>> squared_cosines(np.array([[2.0, 0.0]]), np.array([[1.0, 1.0]])).round(3).tolist()
    [[0.5]]
    """
    units = [
        np.divide(x, length, out=np.zeros_like(x), where=length > 0) for x in (a, b) for length in [np.linalg.norm(x, axis=-1)[:, None]]
    ]
    return np.asarray((units[0] @ units[1].T) ** 2)


def alignment(blocks: Sequence[Floats], *, seed: int = 0) -> Alignment:
    """T of blocks of squared cosines (h, h), queries by keys of one layer of one seed each, with its permutation null.

    Keys are dealt to the queries of their own block anew: every way where there are few, else 9,999. p is the part of them with a T at
    least as large; the deal that was found is one of them. `null` is the mean over pairs of different heads, `null_sd` that of T with a
    head's own pair replaced by it. A layer of one head has no null.

    >>> found = alignment([np.eye(4)])
    >>> found.value, found.null, round(found.p, 4)
    (1.0, 0.0, 0.0417)
    """
    heads = sum(len(block) for block in blocks)
    value = float(sum(np.trace(block) for block in blocks) / heads) if heads else NAN
    useful = [block for block in blocks if len(block) > 1]
    if not useful:
        return Alignment(value, NAN, NAN, NAN, heads)
    sizes = tuple(len(block) for block in useful)
    own = float(sum(np.trace(block) for block in useful) / sum(sizes))
    orders, exact = rearranged(sizes, seed)
    dealt = _dealt(useful, orders)
    reached = int((dealt >= own - 1e-12).sum())
    p = reached / len(orders) if exact else (reached + 1) / (len(orders) + 1)
    others = [(block.sum() - np.trace(block)) / (len(block) * (len(block) - 1)) for block in useful]
    null = float(np.average(others, weights=sizes))
    blank = [np.where(np.eye(len(block), dtype=bool), other, block) for block, other in zip(useful, others, strict=True)]
    return Alignment(value, null, float(_dealt(blank, orders).std()), p, heads)


def _dealt(blocks: Sequence[Floats], orders: np.ndarray) -> Floats:
    """(deals,) T of every deal of keys to queries."""
    total, at = np.zeros(len(orders)), 0
    for block in blocks:
        h = len(block)
        total += block[np.arange(h), orders[:, at : at + h] - at].sum(1)
        at += h
    return np.asarray(total / at)


@dataclass(frozen=True)
class Shuffled:
    """What T is where heads and labels are dealt anew: mean, 95 % of the deals, and the part of them that reach the T that was found."""

    mean: float
    low: float
    high: float
    p: float


def shuffled_labels(means: Sequence[tuple[Floats, Floats]], *, seed: int = 0) -> Shuffled:
    """The control with the labels of queries and keys shuffled: all 2h means of a layer are paired at random, whatever they are.

    `means` are (Q̄, K̄), each (h, e), of one layer of one seed each.
    """
    rng = np.random.default_rng(seed)
    useful = [(q, k) for q, k in means if len(q) > 1]
    if not useful:
        return Shuffled(NAN, NAN, NAN, NAN)
    heads = sum(len(q) for q, _ in useful)
    own, total = 0.0, np.zeros(DRAWS)
    for q, k in useful:
        squares, h = squared_cosines(np.concatenate([q, k]), np.concatenate([q, k])), len(q)
        own += float(np.trace(squares[:h, h:]))
        order = rng.permuted(np.tile(np.arange(2 * h), (DRAWS, 1)), axis=1)
        total += squares[order[:, :h], order[:, h:]].sum(1)
    reached = int((total >= own - 1e-12).sum())
    low, high = np.quantile(total / heads, [0.025, 0.975])
    return Shuffled(float(total.mean() / heads), float(low), float(high), (reached + 1) / (DRAWS + 1))


def fallen(pairs: Sequence[tuple[Estimate, Estimate]]) -> list[bool]:
    """Whether alignment surely does not grow, of several layers or trainings: its change, or T less its null at the end, lies below zero.

    Holm's adjustment allows for how many there are, and Bonferroni's for the two ways to fail.
    """
    least = [least_of(pair) for pair in pairs]
    return [word == "fails" for word in adjusted_outcomes(least, [0.0] * len(least))]


def aligned(adjusted_p: float, changes: Sequence[float], fell: bool) -> Outcome:
    """Whether mean queries and keys align in training.

    It holds where T at the end is above its null (Holm's p below 0.05) and above T at the start in every seed; it fails where it fell.

    >>> aligned(0.01, [0.1, 0.2], False), aligned(0.6, [-0.1], True), aligned(0.01, [0.1, -0.2], False)
    ('holds', 'fails', 'undecided')
    """
    if adjusted_p < LEVEL and len(changes) and min(changes) > 0:
        return "holds"
    return "fails" if fell else "undecided"
