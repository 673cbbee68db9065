"""For every claim a pair of tables as runs would give them: one on which it holds, and one on which it fails."""

from __future__ import annotations

import json
from collections.abc import Iterable

import numpy as np
import pandas as pd

from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, tidy

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


def layers(model: str, kind: str, values: Iterable[float], metric: str = "between_cosine", half: float = 0.01, **more: object) -> list[Row]:
    """A row a layer."""
    return [row(model, kind, metric, value, half, layer=layer, **more) for layer, value in enumerate(values)]


def several(names: Iterable[str], kind: str, values: Iterable[float], **more: object) -> Made:
    """Models of one kind with the same layers."""
    known = list(values)
    return [one for name in names for one in layers(name, kind, known, **more)], []  # type: ignore[arg-type]


def joined(*parts: Made) -> Made:
    """All rows of several tables."""
    return [one for rows, _ in parts for one in rows], [one for _, points in parts for one in points]


def drifting(names: Iterable[str], kind: str, sign: float, count: int = 25) -> Made:
    """Models whose drift ratio goes up and down with their cosine (sign 1), or against it (sign −1)."""
    rows: list[Row] = []
    for i, name in enumerate(names):
        steps = np.random.default_rng(i).normal(size=count) * 0.02
        rows += layers(name, kind, 0.4 + steps.cumsum(), "mean_cosine")
        rows += layers(name, kind, 0.4 + sign * steps.cumsum(), "drift_ratio")
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


def heads(
    model: str,
    metric: str,
    curve: Iterable[float],
    kind: str = "attention",
    tilt: float = 0.0,
    steps: Iterable[int] = STEPS,
    **more: object,
) -> list[Row]:
    """A row a seed, step, layer and head, following a curve over the steps; `tilt` is added from −1 (first layer) to 1 (last)."""
    return [
        row(model, "trained", metric, value + tilt * (layer - 3.5) / 2.5 + 0.01 * noise(seed, layer, head), **(at | more))
        for step, value in zip(steps, curve, strict=True)
        for seed in SEEDS
        for layer in LAYERS
        for head in HEADS
        for at in [{"kind": kind, "layer": layer, "head": head, "step": step, "seed": seed, "d": 32, "revision": f"{step}.{seed}"}]
    ]


def said(model: str, metric: str, value: float, half: float = 0.01, **more: object) -> Row:
    """A row that was derived of a whole suite."""
    return row(model, "trained", metric, value, half, **({"revision": None, "kind": "attention"} | more))


def verdict(word: str) -> dict[str, object]:
    """The spec of a row that carries its verdict."""
    return {"spec": json.dumps({"verdict": word, "note": "made"})}


def of_suites(make: object, *numbers: object) -> Made:
    """The same for three suites."""
    return [one for name in THREE for one in make(name, *numbers)], []  # type: ignore[operator]


def alignment(model: str, first: float, last: float, p: float = 0.001) -> list[Row]:
    """T by step, seed and layer, and its test of all layers at once."""
    rows = [
        said(model, "alignment", value + 0.01 * noise(seed, layer), layer=layer, seed=seed, step=step, null=0.05)
        for step, value in ((0, first), (100, last))
        for seed in SEEDS
        for layer in LAYERS
    ]
    return [*rows, said(model, "alignment_p", p, step=100), said(model, "alignment_shuffled", 0.1, layer=1, step=100)]


def opposite(model: str, onset: int) -> list[Row]:
    """Heads that all end in opposite directions, and begin at this step of 100."""
    return [*heads(model, "qk_cosine", (0, -0.2, -0.8), steps=(0, onset, 100)), said(model, "qk_chance", 0.5)]


def along(basis: str, kinds: tuple[str, ...], part: float) -> Made:
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


def curves_of_dimension(model: str, word: str) -> list[Row]:
    """Rise and fall of the intrinsic dimension, the mean over blocks, with its verdict."""
    at = {"kind": "hidden", "null": 0.1}
    ends = [said(model, f"dimension_{end}", 3.0, seed=seed, **at) for end in ("rise", "fall") for seed in SEEDS]
    return [*ends, said(model, "rise_then_fall", 1.0 if word == "holds" else 0.0, kind="hidden", n=5, **verdict(word))]


def shape(names: Iterable[str], kind: str, value: float, metrics: Iterable[str], policies: Iterable[str]) -> Made:
    """Profiles of whole stacks."""
    return [row(name, kind, metric, value, policy=policy) for name in names for metric in metrics for policy in policies], []


EVERY = ("all", "no-special", "body", "body-no-sink")


def shares(name: str, last: float, final: float) -> list[Row]:
    """A decoder with a bell of top share over eight blocks, the last block and the state after the final norm apart."""
    values = [0.1, 0.1, 0.2, 0.6, 0.7, 0.7, 0.6, 0.2, last]
    middle = float(np.mean([0.6, 0.7, 0.7, 0.6][1:3])) - max(0.1, last)
    rows = [*layers(name, "decoder", values, "top_share"), row(name, "decoder", "top_share", final, kind="final", layer=9)]
    return [*rows, row(name, "decoder", "bell", middle)]


def twins(decoder: float, twin: float, encoder: float, metric: str, layer: object = None) -> Made:
    """Three networks that differ in mask and objective alone, five seeds each, at their last step."""
    rows = []
    for model, value in (("decoder", decoder), ("twin", twin), ("encoder", encoder)):
        for seed in SEEDS:
            at = {"seed": seed, "step": 100, "layer": layer, "revision": f"{seed}", "stack": "encoder" if model == "encoder" else "decoder"}
            rows.append(row(model, "trained", metric, value + 0.01 * noise(seed, len(model)), **at))
    return rows, []


def both_sides(kind: str, first: float, last: float) -> Made:
    """The cosine of queries and keys over the steps of three suites."""
    return of_suites(lambda name: [one for side in ("query", "key") for one in heads(name, kind, (first, last, last), side)])


FLAT = [0.05] * 7
RISING = [0.1, 0.2, 0.3, 0.5, 0.6, 0.7, 0.8]
LOW = [0.01] * 7
PURE, MIXED = (
    [f"{name}-{i}" for name in ("byt5", "canine-c") for i in range(2)],
    [f"{n}-{i}" for n in ("canine-s", "character-bert") for i in range(2)],
)
EXCEPTIONS = {"gpt2": "decoder", "canine-c": "character", "manta-lm-base": "character", "hubert-large": "speech", "whisper-base": "speech"}


def byt5(value: float) -> Made:
    """A ByT5 and a T5 with both stacks."""
    names = ("byt5-base", "t5-base")
    return [one for name in names for stack in ("encoder", "decoder") for one in layers(name, "token", [0.1, value], stack=stack)], []


def apart(high: Iterable[str], low: Iterable[str]) -> Made:
    """Character-level models of which some have a higher cosine than others."""
    return [
        one for i, name in enumerate([*high, *low]) for one in layers(name, "character", [(0.6 if name in high else 0.2) + 0.01 * i])
    ], []


def exceptions(sign: float) -> Made:
    """The models that the paper excepts, with sixty layers each, so that ρ is known well."""
    return joined(*(drifting([name], kind, sign, 60) for name, kind in EXCEPTIONS.items()))


CASES: dict[str, tuple[Made, Made]] = {
    "every_transformer_has_an_anisotropic_layer": (several(THREE, "token", RISING), several(THREE, "token", LOW)),
    "character_models_have_an_anisotropic_layer": (several(THREE, "character", RISING), several(THREE, "character", LOW)),
    "only_characters_are_more_anisotropic": (apart(PURE, MIXED), apart(MIXED, PURE)),
    "t5_decoders_are_extreme": (byt5(0.95), byt5(0.6)),
    "speech_is_anisotropic_in_every_layer": (several(THREE, "speech", [0.3, 0.5]), several(THREE, "speech", [0.1, 0.5])),
    "most_vision_models_have_an_anisotropic_layer": (several(SIX, "vision", RISING), several(SIX, "vision", LOW)),
    "mit_is_isotropic": (several(["mit-b0"], "vision", LOW), several(["mit-b0"], "vision", RISING)),
    "vit_is_low": (several(["vit-base-patch16"], "vision", [0.1, 0.15]), several(["vit-base-patch16"], "vision", [0.1, 0.3])),
    "most_convolutions_are_isotropic": (several(SIX, "convolution", LOW), several(SIX, "convolution", RISING)),
    "resnet50_is_anisotropic": (several(["resnet-50"], "convolution", RISING), several(["resnet-50"], "convolution", LOW)),
    "resnet50_falls_with_depth": (several(["resnet-50"], "convolution", RISING[::-1]), several(["resnet-50"], "convolution", RISING)),
    "convnext_is_isotropic": (several(["convnext-tiny"], "convolution", LOW), several(["convnext-tiny"], "convolution", RISING)),
    "drift_explains_token_models": (drifting(THREE, "token", 1), drifting(THREE, "token", -1)),
    "drift_explains_character_models": (drifting(THREE, "character", 1), drifting(THREE, "character", -1)),
    "drift_explains_speech_models": (drifting(THREE, "speech", 1), drifting(THREE, "speech", -1)),
    "drift_explains_vision_models": (drifting(THREE, "vision", 1), drifting(THREE, "vision", -1)),
    "drift_leaves_out_exceptions": (exceptions(-1), exceptions(1)),
    "drift_leaves_out_convolutions": (drifting(SIX, "convolution", -1, 60), drifting(SIX, "convolution", 1, 60)),
    "centring_leaves_no_cosine": (
        several(THREE, "token", LOW, metric="centred_cosine"),
        several(THREE, "token", RISING, metric="centred_cosine"),
    ),
    "centring_leaves_all_directions_alike": (
        several(THREE, "token", [0.95] * 3, metric="isoscore", null=1.0),
        several(THREE, "token", [0.2] * 3, metric="isoscore", null=1.0),
    ),
    "block_raises_cosine": (block_gain(2e-5), block_gain(-2e-5)),
    "norm_fixed_point_exists": (
        ([block_row("norm_fixed_point", 27.7, 0.1), block_row("norm_fixed_point", np.nan, np.nan, "block bert pre-LN")], []),
        ([block_row("norm_fixed_point", np.nan, np.nan)], []),
    ),
    "norm_fixed_point_is_like_trained_norms": (
        ([block_row("norm_fixed_point", 27.7, 0.1), block_row("trained_norm", 15.0, 0.1)], []),
        ([block_row("norm_fixed_point", 27.7, 0.1), block_row("trained_norm", 2.0, 0.1)], []),
    ),
    "scores_leave_zero": (block_curves({"block_score_offset": (0.0, 0.3)}), block_curves({"block_score_offset": (0.3, 0.1)})),
    "score_sign_is_drawn": (block_curves({"block_score_mean": (0.0, 0.3)}, flip=True), block_curves({"block_score_mean": (0.0, 0.3)})),
    "score_variance_grows": (block_curves({"block_score_sd": (0.01, 0.3)}), block_curves({"block_score_sd": (0.3, 0.1)})),
    "query_and_key_norms_grow": (
        block_curves({"block_query_norm": (0.1, 4.0), "block_key_norm": (0.1, 4.0)}),
        block_curves({"block_query_norm": (0.1, 4.0), "block_key_norm": (4.0, 3.0)}),
    ),
    "queries_and_keys_are_anisotropic_without_bias": (
        ([block_row(f"{kind}_cosine_unbiased", 0.35, 0.01) for kind in ("query", "key")], []),
        ([block_row(f"{kind}_cosine_unbiased", 2e-5, 1e-5) for kind in ("query", "key")], []),
    ),
    "rows_sharpen_with_bias": (
        block_curves({"block_row_max": (0.002, 0.003), "block_row_min": (0.002, 0.001), "block_entropy": (6.2, 5.0)}),
        block_curves({"block_row_max": (0.002, 0.003), "block_row_min": (0.002, 0.001), "block_entropy": (5.0, 6.2)}),
    ),
    "queries_and_keys_align": (of_suites(alignment, 0.05, 0.4), of_suites(alignment, 0.4, 0.02)),
    "first_same_last_opposite": (
        of_suites(lambda name: heads(name, "qk_cosine", (0, 0, 0), tilt=-0.6)),
        of_suites(lambda name: heads(name, "qk_cosine", (0, 0, 0), tilt=0.6)),
    ),
    "opposite_begins_later": (
        of_suites(lambda name: [said(name, "opposite_later", 0.8, 0.1)]),
        of_suites(lambda name: [said(name, "opposite_later", 0.2, 0.1)]),
    ),
    "opposite_begins_after_8_percent": (of_suites(opposite, 20), of_suites(opposite, 2)),
    "first_component_carries_drift": (along("union", ("query", "key"), 0.8), along("union", ("query", "key"), 0.2)),
    "components_describe_each_other": (
        joined(along("query", ("key",), 0.8), along("key", ("query",), 0.8)),
        joined(along("query", ("key",), 0.8), along("key", ("query",), 0.2)),
    ),
    "dot_product_grows": (
        of_suites(lambda name: heads(name, "qk_dot", (0.1, -1.0, -3.0))),
        of_suites(lambda name: heads(name, "qk_dot", (-3.0, 1.0, 0.1))),
    ),
    "queries_and_keys_become_anisotropic": (both_sides("between_cosine", 0.1, 0.6), both_sides("between_cosine", 0.6, 0.5)),
    "alignment_is_the_same_over_seeds": (of_suites(alignment, 0.05, 0.4), of_suites(alignment, 0.4, 0.2)),
    "entropy_falls_in_all_layers": (
        of_suites(lambda name: [said(name, "attention_entropy_change", -1.0 - 0.1 * layer, layer=layer) for layer in LAYERS]),
        of_suites(lambda name: [said(name, "attention_entropy_change", 0.3 - 0.1 * layer, layer=layer) for layer in LAYERS]),
    ),
    "first_layers_stay_sharper": (
        of_suites(lambda name: heads(name, "attention_entropy", (4.0, 3.0, 2.0), tilt=0.5)),
        of_suites(lambda name: heads(name, "attention_entropy", (4.0, 3.0, 2.0), tilt=-0.5)),
    ),
    "drift_comes_before_sharpness": (
        of_suites(lambda name: [said(name, "precedence", 0.9, 0.05)]),
        of_suites(lambda name: [said(name, "precedence", 0.1, 0.05)]),
    ),
    "averages_outside_the_isotropic_range": (several(THREE, "token", RISING), several(THREE, "token", LOW)),
    "decoders_are_bell_shaped": (
        shape(THREE, "decoder", 0.3, ("bell", "bell_linear"), EVERY),
        joined(shape(THREE, "decoder", 0.3, ("bell", "bell_linear"), EVERY[:3]), shape(THREE, "decoder", -0.2, ("bell",), EVERY[3:])),
    ),
    "encoders_are_flat": (
        shape(THREE, "token", 0.05, ("share_range", "share_range_linear"), EVERY),
        shape(THREE, "token", 0.3, ("share_range", "share_range_linear"), EVERY),
    ),
    "decoders_rise_above_encoders": (
        joined(
            *(
                shape([f"{kind}{i}"], kind, 0.4 * (kind == "decoder") + 0.01 * i, ("bell",), ["all"])
                for kind in ("decoder", "token")
                for i in range(4)
            )
        ),
        joined(
            *(
                shape([f"{kind}{i}"], kind, 0.4 * (kind == "token") + 0.01 * i, ("bell",), ["all"])
                for kind in ("decoder", "token")
                for i in range(4)
            )
        ),
    ),
    "bell_survives_the_final_norm": (of_suites(shares, 0.1, 0.1), of_suites(shares, 0.1, 0.9)),
    "decoders_grow_anisotropic": (
        of_suites(lambda name: [said(name, "top_share_change", 0.2, 0.1, kind="hidden")]),
        of_suites(lambda name: [said(name, "top_share_change", -0.2, 0.1, kind="hidden")]),
    ),
    "dimension_rises_then_falls": (of_suites(curves_of_dimension, "holds"), of_suites(curves_of_dimension, "fails")),
    "locally_isotropic": (
        joined(
            several(THREE, "token", [-0.1, -0.2], metric="local_share_excess"),
            several(THREE, "token", [0.1, 0.2], metric="local_isoscore_excess"),
        ),
        several(THREE, "token", [0.1, 0.2], metric="local_share_excess"),
    ),
    "mask_makes_the_bell": (twins(0.4, 0.38, 0.0, "bell"), twins(0.4, 0.02, 0.0, "bell")),
    "mask_makes_the_share": (twins(0.6, 0.58, 0.2, "top_share", 3), twins(0.6, 0.22, 0.2, "top_share", 3)),
}
"""By claim: what it holds on, and what it fails on."""


def tables(made: Made) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Both tables of what was made."""
    return tidy(made[0], TABLE_COLUMNS), tidy(made[1], SERIES_COLUMNS)
