"""What begins first: onsets of drift and of sharpening with one distribution, in heads that share the chance of their training."""

from __future__ import annotations

from functools import partial

import numpy as np

from isoscope.studies.training_dynamics.onset import precedence, share_later
from tests.claims.error_rates import Null
from tests.claims.made_rows import Row, suite_row
from tests.claims.nulls.suites import THREE, head_rows, is_decided, shared_noise

EDGE = 80.0
"""8 % of the steps."""
STEPS = np.array([0, 1, 2, 5, 10, 20, 50, 80, 100, 200, 500, 1000], dtype=float)


def onsets(rng: np.random.Generator, seeds: int, layers: int, count: int) -> np.ndarray:
    """(seeds, heads) the first step after each onset, which lies around step 30 by seed, layer and head."""
    exact = np.exp(3.4 + shared_noise(rng, seeds, layers, count)).reshape(seeds, -1)
    return np.asarray(STEPS[np.searchsorted(STEPS, exact).clip(1, len(STEPS) - 1)])


def precedence_row(rng: np.random.Generator, model: str, seeds: int, layers: int, count: int) -> Row:
    """The row that a training's dynamics give."""
    found = precedence(*(onsets(rng, seeds, layers, count) for _ in range(2)))
    return suite_row(model, "precedence", found.value) | {"low": found.low, "high": found.high, "n": found.units}


def precedence_speaks(rng: np.random.Generator, *, seeds: int, layers: int, count: int) -> bool:
    """Whether one training is decided."""
    return precedence(*(onsets(rng, seeds, layers, count) for _ in range(2))).verdict != "undecided"


def claim_speaks(rng: np.random.Generator, *, seeds: int, layers: int, count: int) -> bool:
    """Whether the claim is decided on three trainings."""
    return is_decided("drift_comes_before_sharpness", [([precedence_row(rng, model, seeds, layers, count)], []) for model in THREE])


def later_speaks(rng: np.random.Generator, *, seeds: int, count: int, by_layer: bool) -> bool:
    """Whether heads that end in opposite directions are said to begin later, or earlier, where all begin alike; of three trainings."""
    rows = []
    for model in THREE:
        begins = onsets(rng, seeds, 6, count)
        opposite = np.arange(begins.shape[1]) >= begins.shape[1] // 2 if by_layer else rng.random(begins.shape[1]) < 0.4
        found, _ = share_later(begins[:, opposite], begins[:, ~opposite])
        rows.append(suite_row(model, "opposite_later", found.value) | {"low": found.low, "high": found.high, "n": seeds})
    return is_decided("opposite_begins_later", [(rows, [])])


def after_speaks(rng: np.random.Generator, *, seeds: int, count: int) -> bool:
    """Whether opposite heads are said to begin after 8 % of the steps, or before, where half of them do; of three trainings."""
    rows: list[Row] = []
    for model in THREE:
        begins = EDGE * np.exp(shared_noise(rng, seeds, 6, count))
        for step in STEPS:
            # Twice as steep as it need be: a tenth of the change is done at the onset.
            done = np.clip(0.1 * (step / begins) ** 2, 0, 1) if step < STEPS[-1] else 1.0
            rows += head_rows(model, "qk_cosine", "attention", -0.8 * np.broadcast_to(done, begins.shape), int(step))
        rows.append(suite_row(model, "qk_chance", 0.5))
    return is_decided("opposite_begins_after_8_percent", [(rows, [])])


NULLS = [
    *(
        Null(
            "which comes first, of one training",
            f"{seeds} seed{'s' if seeds > 1 else ''}, {layers * count} heads, onsets alike",
            partial(precedence_speaks, seeds=seeds, layers=layers, count=count),
            2000,
        )
        for seeds, layers, count in ((1, 6, 4), (2, 6, 4), (3, 6, 4), (5, 6, 4), (3, 2, 2), (5, 2, 2), (3, 12, 12))
    ),
    Null("`drift_comes_before_sharpness`", "3 trainings, 3 seeds, onsets alike", partial(claim_speaks, seeds=3, layers=6, count=4), 500),
    *(
        Null(
            "`opposite_begins_later`",
            f"3 trainings, {seeds} seeds, onsets alike{', opposite in the last layers' if by_layer else ''}",
            partial(later_speaks, seeds=seeds, count=4, by_layer=by_layer),
            500,
        )
        for seeds, by_layer in ((3, False), (5, False), (3, True), (5, True))
    ),
    *(
        Null(
            "`opposite_begins_after_8_percent`",
            f"3 trainings, {seeds} seed{'s' if seeds > 1 else ''}, half begin after",
            partial(after_speaks, seeds=seeds, count=3),
            150,
        )
        for seeds in (1, 3, 5)
    ),
]
