"""From effects with intervals to holds, fails or undecided: thresholds fixed beforehand, Holm over the models tried, models as units."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from isoscope.core.claim import Outcome
from isoscope.statistics.chance import LEVEL, upper_quantile, upper_tail
from isoscope.statistics.inference import Estimate, clopper_pearson, holm

FEWEST = 3
"""With fewer models nothing is said about models of a kind, however clear each one is."""
SOME, MOST = 0.25, 0.5
"""What the part of models must surely exceed: of three of three it surely exceeds a quarter, of six of six a half."""
NAN = float("nan")


@dataclass(frozen=True)
class Case:
    """One model: its effect, and each of the thresholds that it is held against."""

    effect: Estimate
    thresholds: tuple[float, ...]


@dataclass(frozen=True)
class Part:
    """The part of models that a sentence is true of, with Clopper and Pearson's interval, and what follows."""

    outcome: Outcome
    effect: Estimate
    threshold: float


def outcome(effect: Estimate, threshold: float, *, above: bool = True) -> Outcome:
    """`holds` or `fails` where the whole interval lies on one side of the threshold, else `undecided`.

    >>> outcome(Estimate(0.3, 0.25, 0.35), 0.2), outcome(Estimate(0.3, 0.25, 0.35), 0.2, above=False), outcome(Estimate(0.3), 0.2)
    ('holds', 'fails', 'undecided')
    """
    if effect.low > threshold:
        return "holds" if above else "fails"
    if effect.high < threshold:
        return "fails" if above else "holds"
    return "undecided"


def p_value(effect: Estimate, threshold: float) -> float:
    """p, two-sided, that belongs to a 95 % interval: 0.05 where its nearer end lies on the threshold.

    >>> round(p_value(Estimate(0.3, 0.2, 0.35), 0.2), 3), p_value(Estimate(0.3), 0.2)
    (0.05, nan)
    """
    value, low, high, edge = (effect.scale(x) for x in (effect.value, effect.low, effect.high, threshold))
    half = value - low if value > edge else high - value
    if not math.isfinite(half):
        return NAN
    away = abs(value - edge)
    if half <= 0:
        return 0.0 if away > 0 else 1.0
    return 2 * upper_tail(away / half * upper_quantile(LEVEL / 2, effect.freedom), effect.freedom)


def outcomes(effects: Sequence[Estimate], thresholds: Sequence[float], *, above: bool = True) -> list[Outcome]:
    """The outcome of each, after Holm's adjustment for how many there are; of a single one by its interval as it is.

    >>> outcomes([Estimate(0.3, 0.29, 0.31), Estimate(0.3, 0.199, 0.4)], [0.2, 0.2])
    ['holds', 'undecided']
    >>> outcomes([Estimate(0.3, 0.29, 0.31), Estimate(0.3, 0.201, 0.4)], [0.2, 0.2])
    ['holds', 'holds']
    """
    adjusted = holm(np.array([p_value(effect, threshold) for effect, threshold in zip(effects, thresholds, strict=True)]))
    single = [outcome(effect, threshold, above=above) for effect, threshold in zip(effects, thresholds, strict=True)]
    return [word if p < LEVEL else "undecided" for word, p in zip(single, adjusted, strict=True)]


def by_threshold(cases: Mapping[str, Case], *, above: bool = True) -> list[dict[str, Outcome]]:
    """The outcome of every case at each of its thresholds in turn, with Holm over the cases."""
    effects = [case.effect for case in cases.values()]
    held = zip(*(case.thresholds for case in cases.values()), strict=True)
    return [dict(zip(cases, outcomes(effects, thresholds, above=above), strict=True)) for thresholds in held]


def agreed(found: Sequence[Outcome]) -> Outcome:
    """What all thresholds say; `undecided` where they do not agree: then it depends on the threshold.

    >>> agreed(["holds", "holds"]), agreed(["holds", "fails"])
    ('holds', 'undecided')
    """
    return found[0] if len(set(found)) == 1 else "undecided"


def all_of(found: Sequence[Outcome]) -> Outcome:
    """What is claimed of each: `fails` where one fails, `holds` where all do.

    >>> all_of(["holds", "undecided"]), all_of(["holds", "fails"]), all_of([])
    ('undecided', 'fails', 'undecided')
    """
    if "fails" in found:
        return "fails"
    return "holds" if found and set(found) == {"holds"} else "undecided"


def every(found: Sequence[Outcome]) -> Part:
    """A sentence about every model of a kind: one that surely fails refutes it, and it holds where all of three or more do.

    >>> every(["holds"] * 3).outcome, every(["holds"] * 2).outcome, every(["holds", "holds", "fails"]).outcome
    ('holds', 'undecided', 'fails')
    """
    part = _part(found)
    return Part(all_of(found) if len(found) >= FEWEST else "undecided", part, SOME)


def most(found: Sequence[Outcome]) -> Part:
    """A sentence about most models of a kind: the part of them lies surely above, or surely below, a half.

    Models that are undecided count against it where it would hold, and for it where it would fail.

    >>> most(["holds"] * 6).outcome, most(["holds"] * 5).outcome, most(["fails"] * 6 + ["undecided"]).outcome
    ('holds', 'undecided', 'undecided')
    """
    part = _part(found)
    return Part(outcome(part, MOST) if len(found) >= FEWEST else "undecided", part, MOST)


def _part(found: Sequence[Outcome]) -> Estimate:
    """The part that holds; its interval reaches from that with all undecided ones failing to that with all of them holding."""
    n = len(found)
    if not n:
        return Estimate(NAN)
    held, not_failed = found.count("holds"), n - found.count("fails")
    return Estimate(held / n, clopper_pearson(held, n)[0], clopper_pearson(not_failed, n)[1])
