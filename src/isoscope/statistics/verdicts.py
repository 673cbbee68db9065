"""A verdict from the effects of several models: Holm over them, every threshold in turn, and one plain sentence with the evidence."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pandas as pd

from isoscope.core.claim import NOTHING, Finding, Outcome, Verdict
from isoscope.statistics.block_evidence import is_own_block, is_whole_block
from isoscope.statistics.chance import LEVEL
from isoscope.statistics.deciding import FEWEST, Case, Part, agreed, all_of, by_threshold, every, outcome
from isoscope.statistics.evidence import different_n, in_order, interval, is_named, shown
from isoscope.statistics.inference import Estimate
from isoscope.statistics.permutation import MODELS, exact_permutation

Rule = Callable[[Sequence[Outcome]], Part]
NAMED = 3
"""So many findings are told one by one."""


def judged(cases: Mapping[str, Case], rule: Rule = every, *, measure: str, above: bool = True, unit: str = "model") -> Verdict:
    """The verdict on a sentence about models of a kind, which are its units.

    Args:
        cases: the effect of each model, and its thresholds; all have as many.
        rule: what is claimed: of `every` model, or of `most`.
        measure: what the effect is, in words that begin a sentence.
        above: whether the effect is claimed to lie above the thresholds, or below.
        unit: what a case is.
    """
    if not cases:
        return NOTHING
    at_each = by_threshold(cases, above=above)
    parts = [rule(list(at.values())) for at in at_each]
    found = findings(cases, at_each, above=above)
    word = agreed([part.outcome for part in parts])
    part = next((part for part in parts if part.outcome == word), parts[-1])
    said = [_counted(cases, at_each, measure, above, unit), _weakest(found, above)]
    if len({part.outcome for part in parts}) > 1:
        said.append("it depends on the threshold")
    elif len(cases) < FEWEST:
        said.append(f"it takes {FEWEST} {unit}s at least to say it of all such {unit}s")
    return _whole(word, said, found, part.effect, part.threshold)


def judged_each(cases: Mapping[str, Case], wanted: Sequence[str], *, measure: str, above: bool = True) -> Verdict:
    """The verdict on a sentence about models that it names: it must be true of each, and all of them must be there."""
    if not cases:
        return NOTHING
    absent = [name for name in wanted if not any(is_named(model, name) for model in cases)]
    at_each = by_threshold(cases, above=above)
    found = findings(cases, at_each, above=above)
    words = [all_of(list(at.values())) for at in at_each]
    word = agreed(words)
    word = "undecided" if absent and word == "holds" else word
    said = [_counted(cases, at_each, measure, above, "model"), _weakest(found, above)]
    said += ["it depends on the threshold"] if len(set(words)) > 1 else []
    said += [f"not here: {in_order(absent)}"] if absent else []
    worst = _ordered(found, above)[0]
    return _whole(word, said, found, Estimate(worst.effect, worst.low, worst.high), worst.threshold)


def over(found: Sequence[Finding], rule: Rule = every, *, measure: str, unit: str = "suite") -> Verdict:
    """The verdict on a sentence about models of a kind, from findings that were decided by themselves."""
    if not found:
        return NOTHING
    part = rule([one.outcome for one in found])
    said = [f"{measure} in {_count(found, 'holds')} of {len(found)} {unit}{'' if len(found) == 1 else 's'}"]
    said += [f"surely not in {in_order([one.on for one in found if one.outcome == 'fails'])}"] if _count(found, "fails") else []
    said.append("; ".join(f"{one.on}: {interval(Estimate(one.effect, one.low, one.high))}, {one.said}" for one in found[:NAMED]))
    said += [f"it takes {FEWEST} {unit}s at least to say it of all such {unit}s"] if len(found) < FEWEST else []
    return _whole(part.outcome, said, tuple(found), part.effect, part.threshold)


def on_blocks(cases: Mapping[str, Case], *, measure: str, above: bool = True) -> Verdict:
    """The verdict of the published block; whole blocks of other kinds stand beside it. Nothing where it is not there."""
    own = [name for name in cases if is_own_block(name)]
    whole = {name: case for name, case in cases.items() if is_whole_block(name)}
    return decided_by(own[0], whole, measure=measure, above=above) if own else NOTHING


def together(first: Verdict, second: Verdict) -> Verdict:
    """What two parts of one claim say: it holds where both do, and fails where one does. Effect and findings are those of the weaker."""
    if not first.findings or not second.findings:
        return first if not first.findings else second
    word = all_of([first.outcome, second.outcome])
    main = second if second.outcome == word and first.outcome != word else first
    return replace(main, outcome=word, said=f"{first.said} {second.said}")


def findings(cases: Mapping[str, Case], at_each: Sequence[Mapping[str, Outcome]], *, above: bool) -> tuple[Finding, ...]:
    """A finding a case; where thresholds disagree it is undecided, and says so."""
    made = []
    for name, case in cases.items():
        words = [at[name] for at in at_each]
        word = agreed(words)
        farthest, nearest = (max, min) if above else (min, max)
        threshold = (farthest if word == "holds" else nearest)(case.thresholds)
        said = "depends on the threshold" if len(set(words)) > 1 else "no interval" if not math.isfinite(case.effect.low) else ""
        said = "; ".join(part for part in (case.effect.note, said) if part)
        made.append(Finding(name, word, case.effect.value, case.effect.low, case.effect.high, threshold, said))
    return tuple(made)


def decided_by(own: str, cases: Mapping[str, Case], *, measure: str, above: bool = True) -> Verdict:
    """The verdict of one case, the published experiment; the others stand beside it."""
    at_each = by_threshold({own: cases[own]}, above=above)
    others = {name: case for name, case in cases.items() if name != own}
    found = findings({own: cases[own]}, at_each, above=above)
    beside = findings(others, by_threshold(others, above=above), above=above) if others else ()
    effect, side = cases[own].effect, "above" if above else "below"
    said = [f"{measure} of {own} is {interval(effect)}, claimed to lie {side} {_levels(cases[own].thresholds)}"]
    said += ["it depends on the threshold"] if len({at[own] for at in at_each}) > 1 else []
    if beside:
        said.append(f"of {len(beside)} other blocks it holds in {_count(beside, 'holds')} and fails in {_count(beside, 'fails')}")
    return _whole(found[0].outcome, said, (*found, *beside), effect, found[0].threshold)


def compared(ones: Mapping[str, float], others: Mapping[str, float], effect: Estimate, *, measure: str, names: tuple[str, str]) -> Verdict:
    """The verdict on two groups of models, the first claimed to lie above the second: exact permutation over models."""
    if not ones or not others:
        return NOTHING
    p = exact_permutation([*ones.values(), *others.values()], [True] * len(ones) + [False] * len(others))
    sure = not math.isnan(p) and p < LEVEL
    word: Outcome = outcome(effect, 0.0) if sure else "undecided"
    found = tuple(
        Finding(name, "undecided", value, math.nan, math.nan, math.nan, group)
        for group, own in zip(names, (ones, others), strict=True)
        for name, value in own.items()
    )
    counts = f"({len(ones)}) than in the mean of {names[1]} ({len(others)})"
    said = [f"{measure} is higher by {interval(effect)} in the mean of {names[0]} {counts}"]
    said.append(f"it takes {MODELS} of each at least" if math.isnan(p) else f"exact permutation over models: p = {p:.2g}")
    return _whole(word, said, found, effect, 0.0)


def at_equal_n(verdict: Verdict, rows: pd.DataFrame) -> Verdict:
    """A verdict that puts these rows of several models next to each other: undecided where they depend on n and have different n."""
    said = different_n(rows) if verdict.findings else ""
    if not said:
        return verdict
    return replace(verdict, outcome="undecided", said=f"Not compared: {said}.", effect=math.nan, low=math.nan, high=math.nan)


def both(first: Verdict, second: Verdict, words: str) -> Verdict:
    """What two readings of a claim say together: undecided where they do not agree, and `words` say on what it depends."""
    if first.outcome == second.outcome:
        return first
    return replace(first, outcome="undecided", said=f"It depends on {words}: {_lower(first.said)} Else: {_lower(second.said)}")


def _whole(word: Outcome, said: Sequence[str], found: tuple[Finding, ...], effect: Estimate, threshold: float) -> Verdict:
    text = "; ".join(part for part in said if part)
    return Verdict(word, f"{text[:1].upper()}{text[1:]}.", found, effect.value, effect.low, effect.high, threshold)


def _counted(cases: Mapping[str, Case], at_each: Sequence[Mapping[str, Outcome]], measure: str, above: bool, unit: str) -> str:
    """In how many models it is so, at each threshold."""
    side, n = "above" if above else "below", len(cases)
    models = unit if n == 1 else f"{unit}s"
    parts = []
    for k, at in enumerate(at_each):
        level = {shown(case.thresholds[k]) for case in cases.values()}
        spread = next(iter(level)) if len(level) == 1 else "its threshold" if len(at_each) == 1 else "one isotropic pair's 95 %"
        parts.append(f"{side} {spread} in {list(at.values()).count('holds')}")
    failed = [name for name in cases if all(at[name] == "fails" for at in at_each)]
    against = f", surely not in {in_order(failed)}" if failed else ""
    return f"{measure} is surely {', '.join(parts)} of {n} {models}{against}"


def _ordered(found: Sequence[Finding], above: bool) -> list[Finding]:
    """Findings from the weakest evidence to the strongest."""
    rank = {"fails": 0, "undecided": 1, "holds": 2}
    return sorted(found, key=lambda one: (rank[one.outcome], (one.effect - one.threshold) * (1 if above else -1)))


def _weakest(found: Sequence[Finding], above: bool) -> str:
    one = _ordered(found, above)[0]
    where = f" ({one.said})" if one.said else ""
    return f"{'least' if above else 'most'} in {one.on}: {interval(Estimate(one.effect, one.low, one.high))}{where}"


def _count(found: Sequence[Finding], word: Outcome) -> int:
    return sum(one.outcome == word for one in found)


def _levels(levels: Sequence[float]) -> str:
    return " and ".join(shown(level) for level in levels)


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
