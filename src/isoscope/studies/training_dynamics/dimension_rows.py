"""Rows and series about the intrinsic dimension over training."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from isoscope.estimation.inference import Estimate
from isoscope.studies.training_dynamics.rise_and_fall import Level, Levels, mean_level, rise_then_fall, verdict
from isoscope.studies.training_dynamics.suite_measures import Gathered, MeasuredSuite, Points


def _curves(suite: MeasuredSuite, seen: Gathered) -> Iterator[tuple[str, int | None, list[int], dict[int, list[Levels]]]]:
    """Of each layer, and of the mean over each stack's blocks: stack, layer, the steps that all seeds have, and levels by seed."""
    seeds = suite.followed
    steps = sorted(set.intersection(*(set(suite.steps_of(seed)) for seed in seeds))) if seeds else []
    number = {seed: i for i, seed in enumerate(seeds)}
    layers = {
        place: {number[seed]: [found[seed, step] for step in steps] for seed in seeds if all((seed, step) in found for step in steps)}
        for place, found in seen.levels.items()
    }
    for place, curves in layers.items():
        yield place.stack, place.layer, steps, curves
    for stack in dict.fromkeys(place.stack for place in layers):
        blocks = [curves for place, curves in layers.items() if place.stack == stack and place.layer > 0]
        every = set.intersection(*(set(curves) for curves in blocks)) if blocks else set()
        yield (
            stack,
            None,
            steps,
            {seed: [_over(parts) for parts in zip(*(curves[seed] for curves in blocks), strict=True)] for seed in every},
        )


def _over(parts: Sequence[Levels]) -> Levels:
    return Levels(*(mean_level([getattr(part, name) for part in parts]) for name in ("pick", "judge", "gaussian")))


def dimensions(suite: MeasuredSuite, seen: Gathered) -> Iterator[dict[str, Any]]:
    """Rise to the peak of the intrinsic dimension and fall from it, by layer and for the mean over blocks, and the verdict over seeds."""
    for stack, layer, steps, curves in _curves(suite, seen):
        found = rise_then_fall(steps, dict(sorted(curves.items())))
        if not found:
            continue
        where = {"stack": stack, "kind": "hidden", "layer": layer}
        for i, one in found.items():
            at = where | {"seed": suite.followed[i], "n": seen.points}
            note = f"peak of {one.height:.3g} at step {one.peak:g}, picked on other documents" + (" and seeds" if len(curves) > 1 else "")
            for name, value, control in (("rise", one.rise, one.gaussian_rise), ("fall", one.fall, one.gaussian_fall)):
                sd = (control.high - control.low) / 4
                beside = {"null": control.value, "null_sd": sd if math.isfinite(sd) else None}
                yield {"metric": f"dimension_{name}", "value": value, "note": note, "verdict": one.verdict, **at, **beside}
            yield {"metric": "dimension_peak_step", "value": Estimate(one.peak), "note": note, **at}
        word, p = verdict(list(found.values()))
        held = sum(one.verdict == "holds" for one in found.values())
        note = f"in {held} of {len(found)} seeds both lower bounds exceed 10 % of the peak; sign test p = {p:.3g}"
        if len(found) < 5:
            note += "; five seeds at least are needed to decide"
        yield {"metric": "rise_then_fall", "value": Estimate(held / len(found)), "note": note, "verdict": word, "n": len(found), **where}


def dimension_series(suite: MeasuredSuite, seen: Gathered) -> Iterator[Points]:
    """The curves behind `dimension_rise` and `dimension_fall`: the half that is judged, and its Gaussian; weight is the standard error."""
    for stack, layer, steps, curves in _curves(suite, seen):
        for i, curve in curves.items():
            for name in ("judge", "gaussian"):
                own: list[Level] = [getattr(one, name) for one in curve]
                where = {"stack": stack, "kind": "hidden", "layer": layer, "seed": suite.followed[i], "step": steps}
                numbers = {"x": steps, "y": [one.value for one in own], "weight": [one.error for one in own]}
                yield {"name": "dimension_judged" if name == "judge" else "dimension_gaussian", **where, **numbers}
