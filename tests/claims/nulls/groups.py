"""Groups of models, and twins, that do not differ."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from tests.claims.error_rates import Null
from tests.claims.made_rows import Row, layer_rows, row
from tests.claims.nulls.suites import is_decided

Numbers = Callable[[np.random.Generator, int], np.ndarray]
SPREADS: dict[str, Numbers] = {
    "normal": lambda rng, count: rng.standard_normal(count),
    "skewed": lambda rng, count: rng.lognormal(0.0, 1.0, count),
}


def decoders_speak(rng: np.random.Generator, *, sizes: tuple[int, int], spread: str) -> bool:
    """Whether decoders and encoders are told apart by B, which has one distribution."""
    values = 0.1 + 0.05 * SPREADS[spread](rng, sum(sizes))
    kinds = ["decoder"] * sizes[0] + ["token"] * sizes[1]
    rows = [row(f"{kind}{i}", kind, "bell", float(value)) for i, (kind, value) in enumerate(zip(kinds, values, strict=True))]
    return is_decided("decoders_rise_above_encoders", [(rows, [])])


def characters_speak(rng: np.random.Generator) -> bool:
    """Whether models of characters alone are told apart from others, where all have one distribution of cosines."""
    names = [f"{name}-{i}" for name in ("byt5", "canine-c", "canine-s", "character-bert") for i in range(2)]
    rows: list[Row] = []
    for name, level in zip(names, 0.4 + 0.1 * rng.standard_normal(len(names)), strict=True):
        rows += layer_rows(name, "character", level + 0.05 * rng.standard_normal(6))
    return is_decided("only_characters_are_more_anisotropic", [(rows, [])])


def twins_speak(rng: np.random.Generator, *, seeds: int) -> bool:
    """Whether the mask, or the objective, is said to add more to B, where both add as much; seeds share their data."""
    order = rng.standard_normal(seeds)
    rows: list[Row] = []
    for model, level in (("decoder", 0.3), ("twin", 0.2), ("encoder", 0.1)):
        for seed in range(seeds):
            stack = "encoder" if model == "encoder" else "decoder"
            value = level + 0.05 * float(0.7 * order[seed] + 0.7 * rng.standard_normal())
            rows.append(row(model, "trained", "bell", value, seed=seed, step=100, revision=f"{seed}", stack=stack))
    return is_decided("mask_makes_the_bell", [(rows, [])])


NULLS = [
    *(
        Null(
            "`decoders_rise_above_encoders`",
            f"{sizes[0]} and {sizes[1]} models, one {spread} distribution",
            partial(decoders_speak, sizes=sizes, spread=spread),
            300,
        )
        for sizes in ((4, 4), (4, 8))
        for spread in SPREADS
    ),
    Null("`only_characters_are_more_anisotropic`", "4 and 4 models, one distribution", characters_speak, 300),
    *(
        Null("`mask_makes_the_bell`", f"{seeds} seeds, mask and objective add as much", partial(twins_speak, seeds=seeds), 300)
        for seeds in (2, 3, 5)
    ),
]
