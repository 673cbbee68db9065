"""A verdict from the effects on several models: the outcome at every threshold, and one plain sentence with the evidence."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import pandas as pd

from isoscope.claims.claim import UNTESTED, Finding, Outcome, Verdict
from isoscope.claims.deciding import (
    FEWEST_MODELS,
    Effects,
    ModelShare,
    Thresholds,
    agreed_outcome,
    every_model,
    joint_outcome,
    outcomes_by_threshold,
    single_outcome,
)
from isoscope.claims.evidence import describe_estimate, is_named, require_equal_n
from isoscope.core.numerics import LEVEL
from isoscope.core.wording import format_count, format_list, format_p_value
from isoscope.estimation.inference import FEWEST_PER_GROUP, Estimate, exact_permutation, welch

Quantifier = Callable[[Sequence[Outcome]], ModelShare]
QUOTED, MOST_NAMES = 3, 4
"""The sentence quotes at most this many findings, and names at most this many models."""
DEPENDS = "it depends on the threshold"


def decide_models(
    effects: Effects,
    thresholds: float | Thresholds = 0.0,
    quantifier: Quantifier = every_model,
    *,
    measure: str,
    names: Sequence[str] = (),
    above: bool = True,
    unit: str = "model",
) -> Verdict:
    """The verdict on a statement about models of a kind, or about models that it names.

    Args:
        effects: the effect on each model.
        thresholds: one threshold for all, or several for each model; if these disagree, the claim is undecided.
        quantifier: the number of models that it is claimed for: `every_model` or `most_models`.
        measure: the effect in words that begin a sentence.
        names: the models that the statement names: it must be true of each, and each must have been measured.
        above: whether the effect is claimed to lie above the thresholds, or below.
        unit: the word for one model.
    """
    if not effects:
        return UNTESTED
    levels = level_table(effects, thresholds)
    at_levels = outcomes_by_threshold(effects, levels, above=above)
    findings = make_findings(effects, levels, at_levels, above=above)
    weakest = _weakest_finding(findings, above)
    of_weakest = partial(ModelShare, effect=estimate_of(weakest), threshold=weakest.threshold)
    by_level = [list(outcomes.values()) for outcomes in at_levels]
    shares = [of_weakest(joint_outcome(outcomes)) if names else quantifier(outcomes) for outcomes in by_level]
    outcome = agreed_outcome([share.outcome for share in shares])
    # If thresholds disagree, perhaps none of them gives the agreed outcome; then the share at the last one is shown.
    share = next((share for share in shares if share.outcome == outcome), shares[-1])
    parts = [_count_models(levels, at_levels, measure, above, unit), _quote_weakest(weakest, above)]
    if len({share.outcome for share in shares}) > 1:
        parts.append(DEPENDS)
    elif len(effects) < FEWEST_MODELS and not names:
        parts.append(too_few_units(unit))
    if absent := [name for name in names if not any(is_named(model, name) for model in effects)]:
        parts.append(f"not measured: {format_list(absent)}")
        outcome = "undecided" if outcome == "holds" else outcome
    return make_verdict(outcome, parts, findings, share.effect, share.threshold)


def decide_findings(findings: Sequence[Finding], *, measure: str) -> Verdict:
    """The verdict on a statement about every training, from findings that were decided one by one."""
    if not findings:
        return UNTESTED
    share = every_model([finding.outcome for finding in findings])
    failed = [finding.on for finding in findings if finding.outcome == "fails"]
    parts = [f"{measure} in {count_outcome(findings, 'holds')} of {format_count(len(findings), 'suite')}"]
    parts += [f"surely not in {format_list(failed, MOST_NAMES)}"] if failed else []
    parts.append("; ".join(f"{finding.on}: {describe_estimate(estimate_of(finding))}, {finding.note}" for finding in findings[:QUOTED]))
    parts += [too_few_units("suite")] if len(findings) < FEWEST_MODELS else []
    return make_verdict(share.outcome, parts, tuple(findings), share.effect, share.threshold)


def compare_groups(
    first: Mapping[str, pd.DataFrame], second: Mapping[str, pd.DataFrame], *, measure: str, names: tuple[str, str]
) -> Verdict:
    """The verdict on two groups of models, the first claimed to lie above the second: exact permutation over models.

    The number of a model is the mean of its rows.
    """
    if not first or not second:
        return UNTESTED
    means = [{name: float(rows["value"].mean()) for name, rows in group.items()} for group in (first, second)]
    # Welch's interval gives size and direction. The permutation decides as well, because a handful of models cannot show that they are
    # normal.
    effect = welch(*(list(group.values()) for group in means))
    p = exact_permutation([x for group in means for x in group.values()], [True] * len(first) + [False] * len(second))
    outcome: Outcome = single_outcome(effect, 0.0) if p < LEVEL else "undecided"  # p is NaN with too few models
    findings = tuple(
        Finding(model, "undecided", value, math.nan, math.nan, math.nan, name)
        for name, group in zip(names, means, strict=True)
        for model, value in group.items()
    )
    counts = f"in the mean of {names[0]} ({len(first)}) than in the mean of {names[1]} ({len(second)})"
    test = f"it takes at least {FEWEST_PER_GROUP} of each" if math.isnan(p) else f"exact permutation over models: {format_p_value(p)}"
    verdict = make_verdict(outcome, [f"{measure} is higher by {describe_estimate(effect)} {counts}", test], findings, effect, 0.0)
    return require_equal_n(verdict, pd.concat([*first.values(), *second.values()]))


def level_table(effects: Effects, thresholds: float | Thresholds) -> Thresholds:
    """The thresholds of each effect."""
    return {name: thresholds[name] if isinstance(thresholds, Mapping) else (thresholds,) for name in effects}


def make_findings(effects: Effects, levels: Thresholds, at_levels: Sequence[Mapping[str, Outcome]], *, above: bool) -> tuple[Finding, ...]:
    """One finding per effect; undecided if thresholds disagree."""
    farthest, nearest = (max, min) if above else (min, max)
    findings = []
    for name, effect in effects.items():
        outcomes = [at_level[name] for at_level in at_levels]
        outcome = agreed_outcome(outcomes)
        # A finding that holds shows the strictest threshold, which it passed; any other the mildest, which it did not.
        threshold = (farthest if outcome == "holds" else nearest)(levels[name])
        no_interval = "" if math.isfinite(effect.low) or "no interval" in effect.note else "no interval"
        remark = "depends on the threshold" if len(set(outcomes)) > 1 else no_interval
        note = "; ".join(filter(None, (effect.note, remark)))
        findings.append(Finding(name, outcome, effect.value, effect.low, effect.high, threshold, note))
    return tuple(findings)


def make_verdict(outcome: Outcome, parts: Sequence[str], findings: tuple[Finding, ...], effect: Estimate, threshold: float) -> Verdict:
    """A verdict whose sentence is made of these parts."""
    text = "; ".join(parts)
    return Verdict(outcome, f"{text[:1].upper()}{text[1:]}.", findings, effect.value, effect.low, effect.high, threshold)


def estimate_of(finding: Finding) -> Estimate:
    """The effect of a finding with its interval."""
    return Estimate(finding.effect, finding.low, finding.high)


def count_outcome(findings: Sequence[Finding], outcome: Outcome) -> int:
    """How many findings have this outcome."""
    return sum(finding.outcome == outcome for finding in findings)


def too_few_units(unit: str) -> str:
    """Why a claim about all models, or all suites, stays undecided."""
    return f"a claim about all {unit}s takes at least {FEWEST_MODELS}"


def drop_too_few_units(sentence: str) -> str:
    """A verdict's sentence without `too_few_units`, for a text that says it once for all claims.

    >>> drop_too_few_units(f"It is so in 1 of 1 model; {too_few_units('character-level model')}.")
    'It is so in 1 of 1 model.'
    """
    return re.sub(f"; {too_few_units('[^;]+?')}", "", sentence)


def _count_models(levels: Thresholds, at_levels: Sequence[Mapping[str, Outcome]], measure: str, above: bool, unit: str) -> str:
    """In how many models it holds at each threshold, and the models in which it fails at all of them."""
    parts = []
    for k, outcomes in enumerate(at_levels):
        texts = {f"{own[k]:.3g}" for own in levels.values()}
        # Only the first of several thresholds, one isotropic pair's, differs between models: it depends on d.
        level = texts.pop() if len(texts) == 1 else "its threshold" if len(at_levels) == 1 else "one isotropic pair's 95 %"
        parts.append(f"{'above' if above else 'below'} {level} in {list(outcomes.values()).count('holds')}")
    failed = [name for name in levels if all(outcomes[name] == "fails" for outcomes in at_levels)]
    against = f", surely not in {format_list(failed, MOST_NAMES)}" if failed else ""
    return f"{measure} is surely {', '.join(parts)} of {format_count(len(levels), unit)}{against}"


def _quote_weakest(weakest: Finding, above: bool) -> str:
    note = f" ({weakest.note})" if weakest.note else ""
    return f"{'least' if above else 'most'} in {weakest.on}: {describe_estimate(estimate_of(weakest))}{note}"


def _weakest_finding(findings: Sequence[Finding], above: bool) -> Finding:
    rank, sign = {"fails": 0, "undecided": 1, "holds": 2}, 1 if above else -1
    return min(findings, key=lambda finding: (rank[finding.outcome], sign * (finding.effect - finding.threshold)))
