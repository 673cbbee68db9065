"""Alignment: mean queries and keys of heads that share a direction of their layer, and have nothing else to do with each other."""

from __future__ import annotations

from functools import partial
from itertools import product

import numpy as np

from isoscope.studies.training_dynamics.alignment import alignment_rows
from isoscope.studies.training_dynamics.gather import Gathered, MeasuredSuite, Place, make_row
from tests.claims.error_rates import Null
from tests.claims.made_rows import KINDS, Row, suite_row
from tests.claims.nulls.suites import STEPS, THREE, is_decided, shared_noise

LAYERS, HEADS, D = 4, 4, 16


def gathered(rng: np.random.Generator, seeds: int, shared: float) -> Gathered:
    """Means by layer, seed and step; those of a layer go together at a step, and those of a seed over its steps."""
    found = Gathered()
    for layer in range(1, LAYERS + 1):
        own = found.means.setdefault(Place("decoder", layer), {})
        for seed in range(seeds):
            lasting = rng.standard_normal((2, HEADS, D))
            for step in STEPS:
                common = shared * rng.standard_normal((2, 1, D)) + shared * rng.standard_normal((1, 1, D))
                queries, keys = common + 0.5 * lasting + rng.standard_normal((2, HEADS, D))
                own[seed, step] = queries, keys
    return found


def derived_rows(rng: np.random.Generator, model: str, seeds: int, shared: float) -> list[Row]:
    """The rows that a training's dynamics give."""
    suite = MeasuredSuite(KINDS["trained"] | {"model": model}, {}, tuple((seed, step) for seed in range(seeds) for step in STEPS))
    return [make_row(suite, one.pop("metric"), one.pop("value"), **one) for one in alignment_rows(suite, gathered(rng, seeds, shared))]


def claim_speaks(rng: np.random.Generator, *, name: str, seeds: int, shared: float) -> bool:
    """Whether a claim is decided on three trainings."""
    return is_decided(name, [(derived_rows(rng, model, seeds, shared), []) for model in THREE])


def layer_speaks(rng: np.random.Generator, *, seeds: int, shared: float) -> bool:
    """Whether any layer of one training is decided."""
    found = derived_rows(rng, "a", seeds, shared)
    return any(one["metric"] == "alignment_change" and '"verdict": "undecided"' not in str(one["spec"]) for one in found)


def rises_speak(rng: np.random.Generator, *, seeds: int) -> bool:
    """Whether T is said to rise, or to fall, over the seeds of three trainings in which it does not change on average."""
    rows = []
    for model, step in product(THREE, STEPS):
        values = 0.3 + 0.1 * shared_noise(rng, seeds, LAYERS, 1)
        rows += [
            suite_row(model, "alignment", float(values[seed, layer, 0]), layer=layer + 1, seed=seed, step=step, null=0.05)
            for seed, layer in np.ndindex(seeds, LAYERS)
        ]
    return is_decided("alignment_is_the_same_over_seeds", [(rows, [])])


NULLS = [
    *(
        Null(
            "alignment of any layer",
            f"one training, {seeds} seed{'s' if seeds > 1 else ''}, {LAYERS} layers, heads of a layer alike",
            partial(layer_speaks, seeds=seeds, shared=0.5),
            120,
        )
        for seeds in (1, 3, 5)
    ),
    *(
        Null(
            "`queries_and_keys_align`",
            f"3 trainings, {seeds} seeds, heads of a layer alike",
            partial(claim_speaks, name="queries_and_keys_align", seeds=seeds, shared=0.5),
            60,
        )
        for seeds in (3, 5)
    ),
    *(
        Null("`alignment_is_the_same_over_seeds`", f"3 trainings, {seeds} seeds, no change", partial(rises_speak, seeds=seeds), 300)
        for seeds in (5, 6)
    ),
]
