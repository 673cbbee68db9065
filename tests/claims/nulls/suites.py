"""Trainings in which nothing changes: few seeds, each with a part that all its layers and heads share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

import numpy as np

from isoscope.claims import all_claims
from isoscope.core.table import TABLE_COLUMNS, make_table
from isoscope.studies.training_dynamics.gather import MeasuredSuite, make_row
from isoscope.studies.training_dynamics.onset import Tracks, change_rows
from tests.claims.error_rates import Null
from tests.claims.made_rows import KINDS, Made, Row, join_tables, tables

STEPS = (0, 100)
THREE = ("a", "b", "c")


def is_decided(name: str, parts: Iterable[Made]) -> bool:
    """Whether a claim holds or fails on these rows and series."""
    return all_claims[name].decide(*tables(join_tables(*parts))).outcome != "undecided"


def shared_noise(rng: np.random.Generator, seeds: int, layers: int, heads: int) -> np.ndarray:
    """(seeds, layers, heads) with variance 1: a fifth each of the seed, of neighbouring layers and of the layer; the rest is the head's."""
    whole = rng.standard_normal((seeds, 1, 1))
    walk = rng.standard_normal((seeds, layers, 1))
    for layer in range(1, layers):
        walk[:, layer] = 0.8 * walk[:, layer - 1] + 0.6 * walk[:, layer]
    layer_own = rng.standard_normal((seeds, layers, 1))
    return np.asarray(np.sqrt(0.2) * (whole + walk + layer_own) + np.sqrt(0.4) * rng.standard_normal((seeds, layers, heads)))


def head_rows(model: str, metric: str, kind: str, values: np.ndarray, step: int) -> Iterator[Row]:
    """A row a seed, layer and head of values (seeds, layers, heads); a single seed has no number, as a published model has none."""
    for seed, layer, head in np.ndindex(*values.shape):
        value = float(values[seed, layer, head])
        at: Row = {"kind": kind, "layer": layer + 1, "head": head, "step": step, "seed": seed if len(values) > 1 else None}
        known: Row = {"model": model, "revision": f"{step}.{seed}", "policy": "all", "metric": metric, "n": 1000, "d": 64}
        yield KINDS["trained"] | known | at | {"value": value, "low": value - 1e-3, "high": value + 1e-3}


def trained(
    rng: np.random.Generator, model: str, metric: str, kinds: tuple[str, ...], seeds: int, level: float, sd: float, size: bool
) -> Iterator[Row]:
    """The first and the last step of one training, around one level on average over seeds; `size`: with signs drawn by head."""
    for kind in kinds:
        for step in STEPS:
            values = sd * shared_noise(rng, seeds, 6, 4)
            signs = rng.choice([-1.0, 1.0], values.shape) if size else 1.0
            yield from head_rows(model, metric, kind, (level + values) * signs, step)


def heads_speak(
    rng: np.random.Generator, *, name: str, metric: str, kinds: tuple[str, ...], seeds: int, level: float, sd: float, size: bool = False
) -> bool:
    """Whether a claim about heads over seeds is decided on three trainings."""
    return is_decided(name, [(list(trained(rng, model, metric, kinds, seeds, level, sd, size)), []) for model in THREE])


def changed(rng: np.random.Generator, model: str, kind: str, metric: str, seeds: int, layers: int) -> list[Row]:
    """The rows that a training's dynamics give of the change of a number by layer, which is 0 on average over seeds."""
    measured = []
    for step in STEPS:
        values = 0.4 + 0.05 * shared_noise(rng, seeds, layers, 1)
        measured += [one | {"head": None, "seed": one["seed"] or 0} for one in head_rows(model, metric, kind, values, step)]
    suite = MeasuredSuite(KINDS["trained"] | {"model": model}, {}, tuple((seed, step) for seed in range(seeds) for step in STEPS))
    found = change_rows(suite, Tracks(make_table(measured, TABLE_COLUMNS)))
    return [make_row(suite, one.pop("metric"), one.pop("value"), **one) for one in found if "value" in one]


def changes_speak(rng: np.random.Generator, *, name: str, kind: str, metric: str, seeds: int, layers: int = 6) -> bool:
    """Whether a claim about derived changes is decided on three trainings."""
    return is_decided(name, [(changed(rng, model, kind, metric, seeds, layers), []) for model in THREE])


def suites_null(name: str, metric: str, kinds: tuple[str, ...], seeds: int, level: float, sd: float, world: str, **more: bool) -> Null:
    """The null of a claim about heads, in words."""
    draw = partial(heads_speak, name=name, metric=metric, kinds=kinds, seeds=seeds, level=level, sd=sd, **more)
    return Null(f"`{name}`", f"3 trainings, {seeds} seed{'s' if seeds > 1 else ''}, {world}", draw, 300)


ATTENTION, SIDES = ("attention",), ("query", "key")
NULLS = [
    *(suites_null("dot_product_grows", "qk_dot", ATTENTION, seeds, 1.0, 0.3, "no change", size=True) for seeds in (3, 5)),
    suites_null("first_same_last_opposite", "qk_cosine", ATTENTION, 3, 0.0, 0.2, "both thirds at 0"),
    suites_null("first_layers_stay_sharper", "attention_entropy", ATTENTION, 3, 3.0, 0.3, "both thirds alike"),
    suites_null("queries_and_keys_become_anisotropic", "between_cosine", SIDES, 3, 0.2, 0.03, "no change, at the highest threshold"),
    *(
        Null(
            f"`{name}`",
            f"3 trainings, {seeds} seed{'s' if seeds > 1 else ''}, no change in any layer",
            partial(changes_speak, name=name, kind=kind, metric=metric, seeds=seeds),
            150,
        )
        for name, kind, metric in (
            ("entropy_falls_in_all_layers", "attention", "attention_entropy"),
            ("decoders_grow_anisotropic", "hidden", "top_share"),
        )
        for seeds in (1, 3, 5)
    ),
    suites_null("first_layers_stay_sharper", "attention_entropy", ATTENTION, 1, 3.0, 0.3, "both thirds alike"),
    suites_null("first_same_last_opposite", "qk_cosine", ATTENTION, 1, 0.0, 0.2, "both thirds at 0"),
    suites_null("dot_product_grows", "qk_dot", ATTENTION, 1, 1.0, 0.3, "no change", size=True),
]
