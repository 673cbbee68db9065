"""Rise and fall of the intrinsic dimension: curves whose rise, or whose rise and fall, is exactly a tenth of the peak."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from isoscope.studies.training_dynamics.checkpoint_measures import Level, Levels
from isoscope.studies.training_dynamics.gather import Gathered, MeasuredSuite, Place, make_row
from isoscope.studies.training_dynamics.rise_and_fall import dimension_rows
from tests.claims.error_rates import Null
from tests.claims.made_rows import KINDS, Row
from tests.claims.nulls.suites import THREE, is_decided

STEPS = (0, 10, 30, 100, 300, 1000)
PEAK, FREEDOM = 20.0, 40.0
CURVES = {
    "rise a tenth, clear fall": np.array([18.0, 19.0, 20.0, 17.0, 14.0, 12.0]),
    "plateau, rise and fall a tenth": np.array([18.0, 20.0, 20.0, 20.0, 20.0, 18.0]),
    "sharp peak, rise and fall a tenth": np.array([18.0, 19.0, 19.0, 20.0, 19.0, 18.0]),
}
"""What the dimension is at each step."""


def levels(rng: np.random.Generator, curve: np.ndarray, seeds: int, sd: float) -> dict[tuple[int | None, int], Levels]:
    """By seed and step, as the documents of each half show it: half of the chance is that of a document in all steps and seeds."""
    found = {}
    common = {(part, step): rng.standard_normal() for part in ("pick", "judge") for step in STEPS}
    lasting = {part: rng.standard_normal() for part in ("pick", "judge")}
    for seed in range(seeds):
        for step, true in zip(STEPS, curve, strict=True):
            made = []
            for part in ("pick", "judge"):
                chance = math.sqrt(0.25) * (lasting[part] + common[part, step]) + math.sqrt(0.5) * rng.standard_normal()
                made.append(Level(float(true + sd * chance), sd * math.sqrt(rng.chisquare(FREEDOM) / FREEDOM), FREEDOM))
            found[seed, step] = Levels(*made, made[1])
    return found


def derived_rows(rng: np.random.Generator, model: str, curve: str, seeds: int, sd: float) -> list[Row]:
    """The rows that a training's dynamics give; its layers are alike."""
    suite = MeasuredSuite(KINDS["trained"] | {"model": model}, {}, tuple((seed, step) for seed in range(seeds) for step in STEPS))
    seen = Gathered(levels={Place("decoder", 1): levels(rng, CURVES[curve], seeds, sd)}, points=1000)  # type: ignore[arg-type]
    return [make_row(suite, one.pop("metric"), one.pop("value"), **one) for one in dimension_rows(suite, seen)]


def training_speaks(rng: np.random.Generator, *, curve: str, seeds: int, sd: float) -> bool:
    """Whether one training is decided."""
    found = derived_rows(rng, "a", curve, seeds, sd)
    return any(one["metric"] == "rise_then_fall" and '"verdict": "undecided"' not in str(one["spec"]) for one in found)


def claim_speaks(rng: np.random.Generator, *, curve: str, seeds: int, sd: float) -> bool:
    """Whether the claim is decided on three trainings."""
    made = [(derived_rows(rng, model, curve, seeds, sd), []) for model in THREE]
    return is_decided("dimension_rises_then_falls", made)  # type: ignore[arg-type]


NULLS = [
    *(
        Null("rise and fall of one training", f"{seeds} seeds, {curve}", partial(training_speaks, curve=curve, seeds=seeds, sd=sd), 300)
        for curve in CURVES
        for seeds, sd in ((5, 0.5), (8, 1.0))
    ),
    Null(
        "`dimension_rises_then_falls`",
        "3 trainings, 5 seeds, rise and fall a tenth",
        partial(claim_speaks, curve="plateau, rise and fall a tenth", seeds=5, sd=0.5),
        100,
    ),
]
