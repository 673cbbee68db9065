"""Drift and cosine over layers: models that differ, with a true mean of 0; single models at the threshold."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from scipy.stats import rankdata

from isoscope.estimation.drift_test import fisher, pool
from tests.claims.error_rates import Null
from tests.claims.made_rows import Row, layer_rows
from tests.claims.nulls.suites import is_decided

LENGTHS = (12, 24, 13, 48)
"""Differences between layers of the models of a group, in turn."""


def steps(rng: np.random.Generator, r: float, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Differences of two series over the layers of one model, normal with this correlation."""
    x, noise = rng.standard_normal((2, count))
    return x, r * x + math.sqrt(1 - r**2) * noise


def pooled_speaks(rng: np.random.Generator, *, models: int, sd: float) -> bool:
    """Whether the interval over models whose Fisher's z has mean 0 leaves 0 out."""
    parts = []
    for i in range(models):
        count = LENGTHS[i % len(LENGTHS)]
        a, b = (rankdata(own) - (count + 1) / 2 for own in steps(rng, math.tanh(sd * rng.standard_normal()), count))
        parts.append(fisher(float(a @ b / (a @ a)), count))
    found = pool(*zip(*parts, strict=True))
    return not found.low <= 0 <= found.high


def model_rows(rng: np.random.Generator, name: str, kind: str, r: float, count: int) -> list[Row]:
    """A model's cosines and drift ratios over its layers, as rows."""
    x, y = (np.append(0, own.cumsum()) for own in steps(rng, r, count))
    return [*layer_rows(name, kind, 0.4 + 0.01 * x, "mean_cosine"), *layer_rows(name, kind, 0.4 + 0.01 * y, "drift_ratio")]


def claim_speaks(rng: np.random.Generator, *, name: str, kind: str, models: list[str], centre: float, sd: float) -> bool:
    """Whether a claim is decided on models whose Fisher's z is spread around a centre."""
    rows = []
    for i, model in enumerate(models):
        rows += model_rows(rng, model, kind, math.tanh(centre + sd * rng.standard_normal()), LENGTHS[i % len(LENGTHS)])
    return is_decided(name, [(rows, [])])


EDGE = math.atanh(2 * math.sin(math.pi * 0.3 / 6))
"""Fisher's z of the normal correlation whose ranks correlate by 0.3."""
NULLS = [
    *(
        Null(
            "drift, pooled over models",
            f"{models} models, mean 0, sd {sd} between them",
            partial(pooled_speaks, models=models, sd=sd),
            2000,
        )
        for models in (3, 4, 6, 10)
        for sd in (0.0, 0.3, 0.6)
    ),
    Null(
        "`drift_explains_token_models`",
        "5 models, mean 0, sd 0.6 between them",
        partial(claim_speaks, name="drift_explains_token_models", kind="token", models=list("abcde"), centre=0.0, sd=0.6),
        500,
    ),
    Null(
        "`drift_leaves_out_convolutions`",
        "8 networks with ρ = 0.3, the threshold",
        partial(claim_speaks, name="drift_leaves_out_convolutions", kind="convolution", models=list("abcdefgh"), centre=EDGE, sd=0.0),
        500,
    ),
    Null(
        "`drift_leaves_out_exceptions`",
        "the named models with ρ = 0.3, the threshold",
        partial(
            claim_speaks,
            name="drift_leaves_out_exceptions",
            kind="token",
            models=["gpt2", "canine-c", "manta-lm-base", "hubert-large", "whisper-base"],
            centre=EDGE,
            sd=0.0,
        ),
        500,
    ),
]
