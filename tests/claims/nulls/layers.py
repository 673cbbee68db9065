"""The highest and the lowest of a model's layers, all of which lie at the threshold."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from isoscope.estimation.cloud import Cloud
from isoscope.metrics import between_cosine, between_cosine_left_out
from isoscope.statistics.jackknife_groups import GROUPS, Groups
from isoscope.statistics.site_statistics import Moments
from tests.claims.error_rates import Null
from tests.claims.made_rows import KINDS, Made, Row
from tests.claims.nulls.suites import is_decided

D, LAYERS, TOKENS = 16, 13, 5


def clouds(rng: np.random.Generator, level: float, together: float, documents: int, uneven: bool) -> list[Cloud]:
    """A model's layers, each with this mean cosine between documents.

    Points are unit vectors a·e₁ + √(1 − a²)·v with v at random, so two documents have the cosine E[a]² on average. What a is in a
    document goes together over the layers by the correlation `together`. A document's points are equal: the extreme of dependence.
    """
    shared, own = rng.standard_normal((documents, 1)), rng.standard_normal((documents, LAYERS))
    along = (math.sqrt(level) + 0.1 * (math.sqrt(together) * shared + math.sqrt(1 - together) * own)).clip(-0.99, 0.99)
    lengths = np.ceil(rng.lognormal(1.5, 1, documents)) if uneven else np.full(documents, float(TOKENS))
    group = rng.integers(0, GROUPS, documents)
    found = []
    for a in along.T:
        v = rng.standard_normal((documents, D - 1))
        v *= (np.sqrt(1 - a**2) / np.linalg.norm(v, axis=1))[:, None]
        sums = np.column_stack([a, v]) * lengths[:, None]
        groups, moments = Groups(D), Moments(D)
        for target, values in (
            (groups.counts[0, 0], lengths),
            (groups.counts[1, 0], lengths),
            (groups.sums[1, 0], sums),
            (groups.products[0, :, 0, 0], (sums**2).sum(1)),
            (groups.products[1, :, 0, 0], lengths**2),
        ):
            np.add.at(target, group, values)
        moments.n = int(lengths.sum())
        found.append(Cloud(moments, groups))
    return found


def measured(model: str, kind: str, layers: list[Cloud]) -> Made:
    """The rows and the series that a run has of these layers."""
    rows: list[Row] = []
    points: list[Row] = []
    for layer, cloud in enumerate(layers):
        where: Row = KINDS[kind] | {"model": model, "revision": "r", "kind": "hidden", "policy": "all", "layer": layer}
        # A threshold of 0.2 and one of 0.1 are asked for at this d; that of one isotropic pair lies at 0.06.
        rows.append(where | {"metric": "between_cosine"} | between_cosine(cloud).as_dict() | {"d": 768})
        points += [
            where | {"name": between_cosine_left_out.name, "x": x, "y": y, "weight": weight}
            for x, y, weight in zip(*between_cosine_left_out(cloud), strict=True)
        ]
    return rows, points


def claim_speaks(
    rng: np.random.Generator, *, name: str, kind: str, models: list[str], level: float, together: float, documents: int, uneven: bool
) -> bool:
    """Whether a claim is decided on models all of whose layers lie at this level."""
    return is_decided(name, [measured(model, kind, clouds(rng, level, together, documents, uneven)) for model in models])


def layers_null(name: str, kind: str, models: list[str], level: float, together: float, documents: int, draws: int, uneven: bool) -> Null:
    """The null of one claim, in words."""
    lengths = " of uneven length" if uneven else ""
    count = "one model" if len(models) == 1 else f"{len(models)} models"
    world = f"{count}, {LAYERS} layers at {level:g} (correlation {together:g}), {documents} documents{lengths}"
    draw = partial(claim_speaks, name=name, kind=kind, models=models, level=level, together=together, documents=documents, uneven=uneven)
    return Null(f"`{name}`", world, draw, draws)


NULLS = [
    layers_null("vit_is_low", "vision", ["vit-base-patch16"], 0.2, 0.0, 300, 400, False),
    layers_null("vit_is_low", "vision", ["vit-base-patch16"], 0.2, 0.95, 64, 400, False),
    layers_null("vit_is_low", "vision", ["vit-base-patch16"], 0.2, 0.5, 300, 400, True),
    layers_null("speech_is_anisotropic_in_every_layer", "speech", ["a", "b", "c"], 0.2, 0.5, 300, 300, False),
    layers_null("every_transformer_has_an_anisotropic_layer", "token", ["a", "b", "c"], 0.2, 0.5, 300, 300, False),
    layers_null("most_vision_models_have_an_anisotropic_layer", "vision", list("abcdef"), 0.2, 0.5, 300, 200, False),
    layers_null("averages_outside_the_isotropic_range", "token", ["a", "b", "c"], 2 * 0.0594, 0.5, 300, 200, False),
]
