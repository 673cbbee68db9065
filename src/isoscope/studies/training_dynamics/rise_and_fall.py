"""Does a curve over training rise and then fall? The peak is picked on one half of the documents and seeds, and judged on the other."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from isoscope.core.numerics import LEVEL, Floats, margin
from isoscope.core.wording import format_p_value
from isoscope.estimation.inference import Estimate, sign_test
from isoscope.studies.training_dynamics.checkpoint_measures import Level, Levels
from isoscope.studies.training_dynamics.gather import Gathered, MeasuredSuite, Points

SHARE = 0.1
"""A rise or a fall counts if it is surely more than this part of the peak."""
NAN = float("nan")


def mean_level(parts: Sequence[Level]) -> Level:
    """The mean over layers."""
    # Layers see the same tokens, so their errors count as fully correlated, which is conservative.
    return Level(*(float(np.mean([getattr(part, name) for part in parts])) for name in ("value", "error", "freedom")))


@dataclass(frozen=True)
class Phases:
    """One seed: the step of the peak, the rise and the fall on the half that did not pick it, and those of the Gaussian."""

    peak: float
    height: float
    rise: Estimate
    fall: Estimate
    gaussian_rise: Estimate
    gaussian_fall: Estimate
    verdict: str


def level_difference(top: Level, other: Level) -> Estimate:
    """One dimension minus another with Student's interval, which treats them as independent and is therefore conservative."""
    value, error = top.value - other.value, math.hypot(top.error, other.error)
    if not math.isfinite(error):
        return Estimate(value)
    half = margin(error, min(top.freedom, other.freedom))
    return Estimate(value, value - half, value + half, "over documents")


def judge_seed(steps: Sequence[int], picking: Floats, curve: Sequence[Levels]) -> Phases:
    """Judge one seed's curve at the peak of `picking`, (steps,) numbers from other documents and, if there are any, other seeds.

    `holds` if both lower bounds exceed a tenth of the peak, `fails` if an upper bound does not, else `undecided`.
    """
    # The peak is searched between the first and the last step. A curve that only rises or only falls then has a fall or a rise below
    # zero, and chance that lifts an end above the peak cannot make it look like one.
    at = 1 + int(np.nanargmax(picking[1:-1]))
    own, control = [levels.judge for levels in curve], [levels.gaussian for levels in curve]
    ends = [level_difference(own[at], own[end]) for end in (0, -1)]
    of_gaussian = [level_difference(control[at], control[end]) for end in (0, -1)]
    least = SHARE * own[at].value
    short = any(end.high <= least for end in ends)
    outcome = "holds" if all(end.low > least for end in ends) else "fails" if short else "undecided"
    return Phases(float(steps[at]), own[at].value, ends[0], ends[1], of_gaussian[0], of_gaussian[1], outcome)


def rise_then_fall(steps: Sequence[int], curves: Mapping[int, Sequence[Levels]]) -> dict[int, Phases]:
    """The phases of every seed, judged at the peak that the other half of the seeds picks on the other half of the documents.

    With a single seed only the documents are divided. `curves` holds one `Levels` per step for each seed.
    """
    seeds = list(curves)
    picking = {seed: np.array([levels.pick.value for levels in curve]) for seed, curve in curves.items()}
    phases = {}
    for i, seed in enumerate(seeds):
        others = [other for j, other in enumerate(seeds) if j % 2 != i % 2] or [seed]
        mean = np.mean([picking[other] for other in others], axis=0)
        judged = np.array([level.value for levels in curves[seed] for level in (levels.judge, levels.gaussian)])
        if len(steps) >= 3 and np.isfinite(mean).all() and np.isfinite(judged).all():
            phases[seed] = judge_seed(steps, mean, curves[seed])
    return phases


def verdict_over_seeds(seeds: Sequence[Phases]) -> tuple[str, float]:
    """The verdict and p of the sign test: `holds` if p < 0.05, which takes five of five seeds, `fails` if the same is true of failures.

    >>> verdict_over_seeds([])
    ('undecided', 1.0)
    """
    words = [phases.verdict for phases in seeds]
    p, against = (sign_test(words.count(word), len(words), one_sided=True) for word in ("holds", "fails"))
    return ("holds" if p < LEVEL else "fails" if against < LEVEL else "undecided"), p


def _curves(suite: MeasuredSuite, seen: Gathered) -> Iterator[tuple[str, int | None, list[int], dict[int, list[Levels]]]]:
    """For each layer, and for the mean over each stack's blocks: stack, layer, the steps that all seeds have, and levels by seed."""
    seeds = suite.curve_seeds
    steps = sorted(set.intersection(*(set(suite.steps_of(seed)) for seed in seeds))) if seeds else []
    number = {seed: i for i, seed in enumerate(seeds)}
    layers = {
        place: {number[seed]: [levels[seed, step] for step in steps] for seed in seeds if all((seed, step) in levels for step in steps)}
        for place, levels in seen.levels.items()
    }
    for place, curves in layers.items():
        yield place.stack, place.layer, steps, curves
    for stack in dict.fromkeys(place.stack for place in layers):
        blocks = [curves for place, curves in layers.items() if place.stack == stack and place.layer > 0]
        every = set.intersection(*(set(curves) for curves in blocks)) if blocks else set()
        means = {seed: [_mean_levels(layers) for layers in zip(*(curves[seed] for curves in blocks), strict=True)] for seed in every}
        yield stack, None, steps, means


def _mean_levels(parts: Sequence[Levels]) -> Levels:
    return Levels(*(mean_level([getattr(part, name) for part in parts]) for name in ("pick", "judge", "gaussian")))


def dimension_rows(suite: MeasuredSuite, seen: Gathered) -> Iterator[dict[str, Any]]:
    """Rows of the rise and the fall of the intrinsic dimension, by layer and for the mean over blocks, and of the verdict over seeds."""
    for stack, layer, steps, curves in _curves(suite, seen):
        seeds = rise_then_fall(steps, dict(sorted(curves.items())))
        if not seeds:
            continue
        where = {"stack": stack, "kind": "hidden", "layer": layer}
        for i, phases in seeds.items():
            at = where | {"seed": suite.curve_seeds[i], "n": seen.points}
            others = "documents and seeds" if len(curves) > 1 else "documents"
            note = f"peak of {phases.height:.3g} at step {phases.peak:g}, picked on other {others}"
            for name, value, control in (("rise", phases.rise, phases.gaussian_rise), ("fall", phases.fall, phases.gaussian_fall)):
                sd = (control.high - control.low) / 4  # a 95 % interval is about four standard errors wide
                null = {"null": control.value, "null_sd": sd if math.isfinite(sd) else None}
                yield {"metric": f"dimension_{name}", "value": value, "note": note, "verdict": phases.verdict, **at, **null}
            yield {"metric": "dimension_peak_step", "value": Estimate(phases.peak), "note": note, **at}
        verdict, p = verdict_over_seeds(list(seeds.values()))
        held = sum(phases.verdict == "holds" for phases in seeds.values())
        note = f"in {held} of {len(seeds)} seeds both lower bounds exceed 10 % of the peak; sign test {format_p_value(p)}"
        if len(seeds) < 5:
            note += "; five seeds at least are needed to decide"
        yield {"metric": "rise_then_fall", "value": Estimate(held / len(seeds)), "note": note, "verdict": verdict, "n": len(seeds), **where}


def dimension_series(suite: MeasuredSuite, seen: Gathered) -> Iterator[Points]:
    """The curves behind `dimension_rise` and `dimension_fall`: the judged half and its Gaussian. The weight is the standard error."""
    for stack, layer, steps, curves in _curves(suite, seen):
        for i, curve in curves.items():
            for name in ("judge", "gaussian"):
                own: list[Level] = [getattr(levels, name) for levels in curve]
                where = {"stack": stack, "kind": "hidden", "layer": layer, "seed": suite.curve_seeds[i], "step": steps}
                numbers = {"x": steps, "y": [level.value for level in own], "weight": [level.error for level in own]}
                yield {"name": "dimension_judged" if name == "judge" else "dimension_gaussian", **where, **numbers}
