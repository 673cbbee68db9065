"""Rows and series as runs would give them, for tests of claims and of the report."""

from __future__ import annotations

import json
from collections.abc import Iterable

import numpy as np
import pandas as pd

from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, make_table

Row = dict[str, object]
Made = tuple[list[Row], list[Row]]
"""Rows of the table, and of the series."""

KINDS: dict[str, Row] = {
    "token": {"modality": "text", "family": "encoder", "stack": "encoder"},
    "decoder": {"modality": "text", "family": "decoder", "stack": "decoder"},
    "character": {"modality": "characters", "family": "canine", "stack": "encoder"},
    "speech": {"modality": "speech", "family": "wav2vec2", "stack": "encoder"},
    "vision": {"modality": "images", "family": "vision_transformer", "stack": "encoder"},
    "convolution": {"modality": "images", "family": "convolution", "stack": "backbone"},
    "trained": {"modality": "characters", "family": "trained_text", "stack": "decoder"},
    "block": {"family": "block", "stack": "block", "kind": "block"},
}
THREE, SIX = ("a", "b", "c"), ("a", "b", "c", "d", "e", "f")


def row(model: str, group: str, metric: str, value: float, half: float = 0.01, **more: object) -> Row:
    """One row with an interval of ± half around its value."""
    start = {"model": model, "revision": "r", "kind": "hidden", "policy": "all", "metric": metric, "value": value, "n": 1000, "d": 768}
    return start | {"low": value - half, "high": value + half} | KINDS[group] | more


def layer_rows(
    model: str, kind: str, values: Iterable[float], metric: str = "between_cosine", half: float = 0.01, **more: object
) -> list[Row]:
    """One row per layer."""
    return [row(model, kind, metric, value, half, layer=layer, **more) for layer, value in enumerate(values)]


def same_models(names: Iterable[str], kind: str, values: Iterable[float], **more: object) -> Made:
    """Models of one kind with the same layers."""
    known = list(values)
    return [one for name in names for one in layer_rows(name, kind, known, **more)], []  # type: ignore[arg-type]


def join_tables(*parts: Made) -> Made:
    """All rows of several tables."""
    return [one for rows, _ in parts for one in rows], [one for _, points in parts for one in points]


def drifting_models(names: Iterable[str], kind: str, sign: float, count: int = 25) -> Made:
    """Models whose drift ratio goes up and down with their cosine (sign 1), or against it (sign −1)."""
    rows: list[Row] = []
    for i, name in enumerate(names):
        steps = np.random.default_rng(i).normal(size=count) * 0.02
        rows += layer_rows(name, kind, 0.4 + steps.cumsum(), "mean_cosine")
        rows += layer_rows(name, kind, 0.4 + sign * steps.cumsum(), "drift_ratio")
    return rows, []


# Blocks: the published one, in five draws


BLOCK = "block bert post-LN"


def block_row(metric: str, value: float, half: float, model: str = BLOCK, **more: object) -> Row:
    """A number of an untrained block."""
    return row(model, "block", metric, value, half, layer=1, **more)


def block_curves(ends: dict[str, tuple[float, float]], flip: bool = False) -> Made:
    """Curves over a bias of 0 and of 30, five draws with a little noise; `flip`: every other draw has the other sign."""
    points = []
    for name, (first, last) in ends.items():
        for seed in range(8):
            noise, sign = 1 + 0.01 * np.sin(seed + len(name)), -1 if flip and seed % 2 else 1
            for x, y in ((0.0, first), (30.0, last * noise * sign)):
                points.append(KINDS["block"] | {"model": BLOCK, "seed": seed, "layer": 1, "name": name, "x": x, "y": y, "policy": "all"})
    return [], points


def block_gain(gain: float) -> Made:
    """The cosine that enters and leaves the block at three norms of the bias, eight draws: at the largest norm it gains this much."""
    points = []
    for seed in range(8):
        for x, more in ((0.0, 1e-3), (10.0, 1e-4), (30.0, gain)):
            for layer, y in ((0, 0.1 * x), (1, 0.1 * x + more * (1 + 0.1 * noise(seed)))):
                points.append(KINDS["block"] | {"model": BLOCK, "seed": seed, "layer": layer, "name": "block_cosine", "x": x, "y": y})
    return [], points


# Suites: six layers, three heads, five seeds, steps 0 to 100


LAYERS, HEADS, SEEDS, STEPS = range(1, 7), range(3), range(5), (0, 10, 100)


def noise(*numbers: int) -> float:
    """A little of it, always the same."""
    return float(np.sin(sum((i + 1) * 7.3 * n for i, n in enumerate(numbers))))


def head_rows(
    model: str,
    metric: str,
    curve: Iterable[float],
    kind: str = "attention",
    tilt: float = 0.0,
    steps: Iterable[int] = STEPS,
    **more: object,
) -> list[Row]:
    """One row per seed, step, layer and head, following a curve over the steps; `tilt` is added from −1 (first layer) to 1 (last)."""
    return [
        row(model, "trained", metric, value + tilt * (layer - 3.5) / 2.5 + 0.01 * noise(seed, layer, head), **(at | more))
        for step, value in zip(steps, curve, strict=True)
        for seed in SEEDS
        for layer in LAYERS
        for head in HEADS
        for at in [{"kind": kind, "layer": layer, "head": head, "step": step, "seed": seed, "d": 32, "revision": f"{step}.{seed}"}]
    ]


def suite_row(model: str, metric: str, value: float, half: float = 0.01, **more: object) -> Row:
    """A row derived from a whole suite."""
    return row(model, "trained", metric, value, half, **({"revision": None, "kind": "attention"} | more))


def spec_with_verdict(word: str) -> dict[str, object]:
    """The spec of a row that carries its verdict."""
    return {"spec": json.dumps({"verdict": word, "note": "made"})}


def three_suites(make: object, *numbers: object) -> Made:
    """The same for three suites."""
    return [one for name in THREE for one in make(name, *numbers)], []  # type: ignore[operator]


def alignment_rows(model: str, first: float, last: float, p: float = 0.001) -> list[Row]:
    """T by step, seed and layer, and its test of all layers at once."""
    rows = [
        suite_row(model, "alignment", value + 0.01 * noise(seed, layer), layer=layer, seed=seed, step=step, null=0.05)
        for step, value in ((0, first), (100, last))
        for seed in SEEDS
        for layer in LAYERS
    ]
    return [*rows, suite_row(model, "alignment_p", p, step=100), suite_row(model, "alignment_shuffled", 0.1, layer=1, step=100)]


def opposite_heads(model: str, onset: int) -> list[Row]:
    """Heads that all end in opposite directions, and begin at this step of 100."""
    return [*head_rows(model, "qk_cosine", (0, -0.2, -0.8), steps=(0, onset, 100)), suite_row(model, "qk_chance", 0.5)]


def drift_on_first_component(basis: str, kinds: tuple[str, ...], part: float) -> Made:
    """Mean queries or keys of length 2, with this part of their squared length on the first component."""
    rows, points = [], []
    for model in THREE:
        for kind in kinds:
            for layer, head, seed in ((layer, head, seed) for layer in LAYERS for head in HEADS for seed in SEEDS):
                at = {"kind": kind, "layer": layer, "head": head, "seed": seed, "step": 100}
                rows.append(row(model, "trained", "drift_norm", 2.0, **at))
                own = min(part + 0.01 * noise(layer, head, seed), 1.0)
                points += [
                    KINDS["trained"] | at | {"model": model, "policy": "all", "name": f"mean_along_{basis}", "x": x, "y": y}
                    for x, y in ((1, 2 * own**0.5), (2, 0.0), (3, 2 * (1 - own) ** 0.5))
                ]
    return rows, points


def dimension_rows(model: str, word: str) -> list[Row]:
    """Rise and fall of the intrinsic dimension, the mean over blocks, with its verdict."""
    at = {"kind": "hidden", "null": 0.1}
    ends = [suite_row(model, f"dimension_{end}", 3.0, seed=seed, **at) for end in ("rise", "fall") for seed in SEEDS]
    return [*ends, suite_row(model, "rise_then_fall", 1.0 if word == "holds" else 0.0, kind="hidden", n=5, **spec_with_verdict(word))]


def profile_tables(names: Iterable[str], kind: str, value: float, metrics: Iterable[str], policies: Iterable[str]) -> Made:
    """Profiles of whole stacks."""
    return [row(name, kind, metric, value, policy=policy) for name in names for metric in metrics for policy in policies], []


POLICIES = ("all", "no-special", "body", "body-no-sink")


def bell_with_final_norm(name: str, last: float, final: float) -> list[Row]:
    """A decoder with a bell of top share over eight blocks, the last block and the state after the final norm apart."""
    values = [0.1, 0.1, 0.2, 0.6, 0.7, 0.7, 0.6, 0.2, last]
    middle = float(np.mean([0.6, 0.7, 0.7, 0.6][1:3])) - max(0.1, last)
    rows = [*layer_rows(name, "decoder", values, "top_share"), row(name, "decoder", "top_share", final, kind="final", layer=9)]
    return [*rows, row(name, "decoder", "bell", middle)]


def twin_networks(decoder: float, twin: float, encoder: float, metric: str, layer: object = None) -> Made:
    """Three networks that differ in mask and objective alone, five seeds each, at their last step."""
    rows = []
    for model, value in (("decoder", decoder), ("twin", twin), ("encoder", encoder)):
        for seed in SEEDS:
            at = {"seed": seed, "step": 100, "layer": layer, "revision": f"{seed}", "stack": "encoder" if model == "encoder" else "decoder"}
            rows.append(row(model, "trained", metric, value + 0.01 * noise(seed, len(model)), **at))
    return rows, []


def query_and_key_cosines(kind: str, first: float, last: float) -> Made:
    """The cosine of queries and keys over the steps of three suites."""
    return three_suites(lambda name: [one for side in ("query", "key") for one in head_rows(name, kind, (first, last, last), side)])


RISING = [0.1, 0.2, 0.3, 0.5, 0.6, 0.7, 0.8]
LOW = [0.01] * 7
CHARACTERS_ALONE, OTHER_CHARACTERS = (
    [f"{name}-{i}" for name in ("byt5", "canine-c") for i in range(2)],
    [f"{n}-{i}" for n in ("canine-s", "character-bert") for i in range(2)],
)
EXCEPTIONS = {"gpt2": "decoder", "canine-c": "character", "manta-lm-base": "character", "hubert-large": "speech", "whisper-base": "speech"}


def t5_models(value: float) -> Made:
    """A ByT5 and a T5 with both stacks."""
    names = ("byt5-base", "t5-base")
    return [one for name in names for stack in ("encoder", "decoder") for one in layer_rows(name, "token", [0.1, value], stack=stack)], []


def character_models(high: Iterable[str], low: Iterable[str]) -> Made:
    """Character-level models of which some have a higher cosine than others."""
    return [
        one for i, name in enumerate([*high, *low]) for one in layer_rows(name, "character", [(0.6 if name in high else 0.2) + 0.01 * i])
    ], []


def excepted_models(sign: float) -> Made:
    """The models that the paper excepts, with sixty layers each, so that ρ is known well."""
    return join_tables(*(drifting_models([name], kind, sign, 60) for name, kind in EXCEPTIONS.items()))


def tables(made: Made) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Both tables of what was made."""
    return make_table(made[0], TABLE_COLUMNS), make_table(made[1], SERIES_COLUMNS)
