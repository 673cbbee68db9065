"""The untrained block: five draws of weights in which nothing grows with the bias."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from isoscope.claims import all_claims
from isoscope.estimation.inference import student
from isoscope.studies.untrained_block.curves import TRAINED
from tests.claims.error_rates import Null
from tests.claims.made_rows import BLOCK, KINDS, Made, Row, block_row, tables
from tests.claims.nulls.suites import is_decided

NORMS = (0.0, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0)
DRAWS = 5


def curves(rng: np.random.Generator, name: str, level: float, sd: float, together: float, layer: int = 1) -> list[Row]:
    """A curve over the norms in five draws, level on average; what a draw adds goes together over the norms by this correlation."""
    shared, own = rng.standard_normal((DRAWS, 1)), rng.standard_normal((DRAWS, len(NORMS)))
    values = level + sd * (math.sqrt(together) * shared + math.sqrt(1 - together) * own)
    return [
        KINDS["block"] | {"model": BLOCK, "seed": seed, "layer": layer, "name": name, "x": x, "y": float(values[seed, i]), "policy": "all"}
        for seed in range(DRAWS)
        for i, x in enumerate(NORMS)
    ]


def curves_speak(rng: np.random.Generator, *, name: str, series: tuple[str, ...], level: float, sd: float, together: float) -> bool:
    """Whether a claim is decided on level curves."""
    return is_decided(name, [([], curves(rng, one, level, sd, together)) for one in series])


def gain_speaks(rng: np.random.Generator, *, together: float) -> bool:
    """Whether a gain in cosine is decided where there is none at any norm."""
    enters = curves(rng, "block_cosine", 0.3, 0.0, together, layer=0)
    leaves = curves(rng, "block_cosine", 0.3, 0.02, together, layer=1)
    return is_decided("block_raises_cosine", [([], enters + leaves)])


def measured(rng: np.random.Generator, metric: str, level: float, sd: float) -> Row:
    """A number of the block with Student's interval over its draws."""
    found = student(level + sd * rng.standard_normal(DRAWS))
    return block_row(metric, found.value, 0.0) | {"low": found.low, "high": found.high, "n": DRAWS}


def unbiased_speaks(rng: np.random.Generator) -> bool:
    """Whether queries and keys are called anisotropic, or not, where both lie at the highest threshold."""
    made: Made = [measured(rng, f"{kind}_cosine_unbiased", 0.2, 0.05) for kind in ("query", "key")], []
    return is_decided("queries_and_keys_are_anisotropic_without_bias", [made])


def fixed_point_speaks(rng: np.random.Generator, *, factor: float) -> bool:
    """Whether N* is called like the trained norms, or not, where it is this many times as long."""
    made: Made = [measured(rng, "norm_fixed_point", 10 * factor, 1.5), block_row(TRAINED, 10.0, 0.1)], []
    return is_decided("norm_fixed_point_is_like_trained_norms", [made])


def sign_speaks(rng: np.random.Generator, *, draws: int) -> bool:
    """Whether it is said that the sign is not drawn, where it is."""
    points = [
        KINDS["block"] | {"model": BLOCK, "seed": seed, "layer": 1, "name": "block_score_mean", "x": x, "y": x * float(y), "policy": "all"}
        for seed, y in enumerate(rng.standard_normal(draws))
        for x in (0.0, 30.0)
    ]
    return all_claims["score_sign_is_drawn"].decide(*tables(([], points))).outcome == "fails"


def level_null(name: str, series: tuple[str, ...], level: float, sd: float, together: float) -> Null:
    """The null of a claim about growth, in words."""
    draw = partial(curves_speak, name=name, series=series, level=level, sd=sd, together=together)
    return Null(f"`{name}`", f"{DRAWS} draws, level over the bias", draw, 600)


NULLS = [
    *(
        Null(
            "`block_raises_cosine`",
            f"{DRAWS} draws, no gain at 12 norms (correlation {together:g})",
            partial(gain_speaks, together=together),
            600,
        )
        for together in (0.0, 0.9)
    ),
    level_null("scores_leave_zero", ("block_score_offset",), 0.1, 0.02, 0.5),
    level_null("score_variance_grows", ("block_score_sd",), 0.1, 0.02, 0.5),
    level_null("query_and_key_norms_grow", ("block_query_norm", "block_key_norm"), 3.0, 0.2, 0.5),
    level_null("rows_sharpen_with_bias", ("block_row_max", "block_row_min", "block_entropy"), 1.0, 0.05, 0.5),
    Null("`queries_and_keys_are_anisotropic_without_bias`", f"{DRAWS} draws, both at the highest threshold", unbiased_speaks, 600),
    *(
        Null(
            "`norm_fixed_point_is_like_trained_norms`",
            f"{DRAWS} draws, N* {words} times the trained norms",
            partial(fixed_point_speaks, factor=factor),
            600,
        )
        for factor, words in ((3.0, "three"), (1 / 3, "a third"))
    ),
    *(
        Null("`score_sign_is_drawn` fails", f"{draws} draws, either sign with chance ½", partial(sign_speaks, draws=draws), 600)
        for draws in (5, 6, 8)
    ),
]
