"""From effects with intervals to holds, fails or undecided.

Thresholds are fixed beforehand. Holm's adjustment allows for the number of models tested. For a claim about a kind of model, the models
are the units.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from isoscope.claims.claim import Outcome
from isoscope.core.numerics import LEVEL, upper_quantile, upper_tail
from isoscope.estimation.inference import NAN, Estimate, clopper_pearson, holm

FEWEST_MODELS = 3
"""With fewer models a claim about models of a kind stays undecided, however clear each model is."""
SOME, MOST = 0.25, 0.5
"""The shares of models that an interval must exceed: that of three of three lies above a quarter, that of six of six above a half."""

Effects = Mapping[str, Estimate]
"""The effect on each model, suite or block, by name."""
Thresholds = Mapping[str, tuple[float, ...]]
"""The thresholds of each of them, the same number for all."""


@dataclass(frozen=True)
class ModelShare:
    """The share of models for which a statement holds, with Clopper and Pearson's interval, and the outcome that follows from it."""

    outcome: Outcome
    effect: Estimate
    threshold: float


def single_outcome(effect: Estimate, threshold: float, *, above: bool = True) -> Outcome:
    """`holds` or `fails` if the whole interval lies on one side of the threshold, else `undecided`.

    >>> effect = Estimate(0.3, 0.25, 0.35)
    >>> single_outcome(effect, 0.2), single_outcome(effect, 0.2, above=False), single_outcome(Estimate(0.3), 0.2)
    ('holds', 'fails', 'undecided')
    """
    if effect.low > threshold:
        return "holds" if above else "fails"
    if effect.high < threshold:
        return "fails" if above else "holds"
    return "undecided"


def p_value(effect: Estimate, threshold: float) -> float:
    """The two-sided p that belongs to a 95 % interval: 0.05 if its nearer end lies on the threshold.

    >>> round(p_value(Estimate(0.3, 0.2, 0.35), 0.2), 3), p_value(Estimate(0.3), 0.2)
    (0.05, nan)
    """
    # Tables hold intervals and Holm's adjustment ranks p-values, so an interval is turned back into a p.
    # An interval need not be symmetric around its number, so only the end that faces the threshold counts.
    value, low, high, edge = (effect.scale(x) for x in (effect.value, effect.low, effect.high, threshold))
    half = value - low if value > edge else high - value
    if not math.isfinite(half):
        return NAN
    distance = abs(value - edge)
    if half <= 0:
        return 0.0 if distance > 0 else 1.0
    return 2 * upper_tail(distance / half * upper_quantile(LEVEL / 2, effect.freedom), effect.freedom)


def adjusted_outcomes(effects: Sequence[Estimate], thresholds: Sequence[float], *, above: bool = True) -> list[Outcome]:
    """The outcome of each effect after Holm's adjustment for their number. A single effect is decided by its own interval.

    >>> adjusted_outcomes([Estimate(0.3, 0.29, 0.31), Estimate(0.3, 0.199, 0.4)], [0.2, 0.2])
    ['holds', 'undecided']
    >>> adjusted_outcomes([Estimate(0.3, 0.29, 0.31), Estimate(0.3, 0.201, 0.4)], [0.2, 0.2])
    ['holds', 'holds']
    """
    pairs = list(zip(effects, thresholds, strict=True))
    adjusted = holm(np.array([p_value(effect, threshold) for effect, threshold in pairs]))
    # An effect without an interval has a NaN p, which is not below the level: it stays undecided, and is not counted in the adjustment.
    alone = [single_outcome(effect, threshold, above=above) for effect, threshold in pairs]
    return [outcome if p < LEVEL else "undecided" for outcome, p in zip(alone, adjusted, strict=True)]


def outcomes_by_threshold(effects: Effects, thresholds: Thresholds, *, above: bool = True) -> list[dict[str, Outcome]]:
    """The outcome of every effect at each of its thresholds in turn, with Holm's adjustment over the effects."""
    by_position = zip(*(thresholds[name] for name in effects), strict=True)
    return [dict(zip(effects, adjusted_outcomes(list(effects.values()), levels, above=above), strict=True)) for levels in by_position]


def agreed_outcome(outcomes: Sequence[Outcome]) -> Outcome:
    """The outcome that all thresholds give; `undecided` if they disagree.

    >>> agreed_outcome(["holds", "holds"]), agreed_outcome(["holds", "fails"])
    ('holds', 'undecided')
    """
    return outcomes[0] if len(set(outcomes)) == 1 else "undecided"


def joint_outcome(outcomes: Sequence[Outcome]) -> Outcome:
    """The outcome of a statement about all of them: `fails` if one fails, `holds` if all hold.

    >>> joint_outcome(["holds", "undecided"]), joint_outcome(["holds", "fails"]), joint_outcome([])
    ('undecided', 'fails', 'undecided')
    """
    if "fails" in outcomes:
        return "fails"
    return "holds" if outcomes and set(outcomes) == {"holds"} else "undecided"


def every_model(outcomes: Sequence[Outcome]) -> ModelShare:
    """A statement about every model of a kind: one model that fails refutes it, and it holds if all of three or more do.

    >>> every_model(["holds"] * 3).outcome, every_model(["holds"] * 2).outcome, every_model(["holds", "holds", "fails"]).outcome
    ('holds', 'undecided', 'fails')
    """
    outcome = joint_outcome(outcomes) if len(outcomes) >= FEWEST_MODELS else "undecided"
    return ModelShare(outcome, _share_that_holds(outcomes), SOME)


def most_models(outcomes: Sequence[Outcome]) -> ModelShare:
    """A statement about most models of a kind: the interval of their share lies above, or below, a half.

    Undecided models count against both outcomes: as failing when it would hold, and as holding when it would fail.

    >>> most_models(["holds"] * 6).outcome, most_models(["holds"] * 5).outcome, most_models(["fails"] * 6 + ["undecided"]).outcome
    ('holds', 'undecided', 'undecided')
    """
    share = _share_that_holds(outcomes)
    return ModelShare(single_outcome(share, MOST) if len(outcomes) >= FEWEST_MODELS else "undecided", share, MOST)


def _share_that_holds(outcomes: Sequence[Outcome]) -> Estimate:
    """The share of outcomes that hold. The interval reaches from all undecided outcomes failing to all of them holding."""
    n = len(outcomes)
    if not n:
        return Estimate(NAN)
    held, not_failed = outcomes.count("holds"), n - outcomes.count("fails")
    return Estimate(held / n, clopper_pearson(held, n)[0], clopper_pearson(not_failed, n)[1])
