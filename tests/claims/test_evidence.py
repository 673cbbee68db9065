"""The evidence of claims: names of models, and numbers that are compared at equal n only."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from isoscope.claims import all_claims
from isoscope.claims.evidence import is_named
from isoscope.core.number import POPULATION, THIS_N
from tests.claims.made_claims import CASES
from tests.claims.made_rows import SEEDS, STEPS, THREE, drifting_models, head_rows, layer_rows, row, same_models, tables


@pytest.mark.parametrize(
    ("model", "name", "wanted"),
    [
        ("openai-community/gpt2", "GPT-2", True),
        ("gpt2-medium", "GPT-2", True),
        ("google/vit-base-patch16-224", "ViT", True),
        ("vit_base_patch14_dinov2", "ViT", False),
        ("nvidia/mit-b0", "MiT", True),
        ("my-limit-b0", "MiT", False),
        ("google/byt5-small", "T5", False),
        ("google-t5/t5-base", "T5", True),
        ("almanach/manta-lm-base", "MANTa-base", True),
        ("google/canine-c", "CANINE-c", True),
        ("google/canine-s", "CANINE-c", False),
        ("facebook/hubert-base-ls960", "HuBERT", True),
        ("openai/whisper-base.en", "Whisper-base", True),
        ("microsoft/resnet-50", "ResNet-50", True),
        ("resnet-101", "ResNet-50", False),
        ("facebook/convnext-tiny-224", "ConvNeXt", True),
    ],
)
def test_models_are_recognised_by_their_names(model: str, name: str, wanted: bool) -> None:
    assert is_named(model, name) is wanted


def test_one_of_several_names_is_enough() -> None:
    assert is_named("google/byt5-small", "T5", "ByT5")
    assert not is_named("google/byt5-small")


RISING = [0.1 + 0.03 * i for i in range(12)]
STEPS_DIFFER = {
    "decoders_grow_anisotropic": ("top_share", "hidden"),
    "queries_and_keys_align": ("qk_cosine", "attention"),
    "alignment_is_the_same_over_seeds": ("qk_cosine", "attention"),
    "opposite_begins_later": ("qk_cosine", "attention"),
    "opposite_begins_after_8_percent": ("qk_cosine", "attention"),
}


def suite_rows(name: str, metric: str, kind: str) -> pd.DataFrame:
    """The tables on which a claim holds, with what its three suites were derived of, all of 5,000 points."""
    rows, series = CASES[name][0]
    if kind == "attention":
        raw = [one for suite in THREE for one in head_rows(suite, metric, (0, -0.2, -0.8)) if name != "opposite_begins_after_8_percent"]
    else:
        at = [{"step": step, "seed": seed, "layer": 1, "revision": f"{step}.{seed}"} for step in STEPS for seed in SEEDS]
        raw = [row(suite, "trained", metric, 0.5, kind=kind, **one) for suite in THREE for one in at]
    table = tables(([*rows, *raw], series))[0]
    measured = table["metric"].eq(metric) & table["step"].notna() & table["revision"].notna()
    return table.assign(interval_about=measured.map({True: THIS_N, False: None}), n=table["n"].where(~measured, 5000))


@pytest.mark.parametrize("name", STEPS_DIFFER)
def test_steps_of_different_n_are_not_compared(name: str) -> None:
    metric, kind = STEPS_DIFFER[name]
    table, series = suite_rows(name, metric, kind), tables(CASES[name][0])[1]
    decide = all_claims[name].decide
    assert decide(table, series).outcome == "holds"
    early = table["interval_about"].eq(THIS_N) & table["step"].eq(0)
    why = f"n differs between steps (4,000 to 5,000) and {metric} depends on n; measure all with --max-tokens 4000"
    one = decide(table.assign(n=table["n"].mask(early & table["model"].eq("a"), 4000)), series)
    assert one.outcome == "undecided"  # two trainings are too few
    assert one.sentence.endswith(f" Left out: a: {why}.")
    assert {finding.on for finding in one.findings} == {"b", "c"}
    every = decide(table.assign(n=table["n"].mask(early, 4000)), series)
    assert every.outcome == "undecided"
    assert every.sentence == f"Not compared: a: {why}; b: {why}; c: {why}."
    assert decide(table.assign(n=table["n"].mask(early, 4000), interval_about=POPULATION), series).outcome == "holds"


def unequal_layers(table: pd.DataFrame, metric: str) -> pd.DataFrame:
    """The table with half as many points from layer 4 on, where this metric, which depends on n, was measured."""
    own = table["metric"].eq(metric)
    deep = own & table["layer"].ge(4).fillna(False).astype(bool)
    return table.assign(interval_about=own.map({True: THIS_N, False: POPULATION}), n=table["n"].where(~deep, 500))


@pytest.mark.parametrize(("name", "kind"), [("decoders_are_bell_shaped", "decoder"), ("encoders_are_flat", "token")])
def test_a_shape_over_blocks_of_different_n_is_not_looked_at(name: str, kind: str) -> None:
    made = CASES[name][0][0] + [one for model in THREE for one in layer_rows(model, kind, RISING[:9], "top_share")]
    table, series = tables((made, []))
    assert all_claims[name].decide(table.assign(interval_about=THIS_N), series).outcome == "holds"
    found = all_claims[name].decide(unequal_layers(table, "top_share"), series)
    assert found.outcome == "undecided"
    assert found.sentence.startswith("Not compared: a: n differs (500 to 1,000) and top_share depends on n; b: ")


def test_the_state_after_the_final_norm_has_the_n_of_the_blocks() -> None:
    name = "bell_survives_the_final_norm"
    table, series = tables(CASES[name][0])
    table = table.assign(interval_about=THIS_N)
    assert all_claims[name].decide(table, series).outcome == "holds"
    found = all_claims[name].decide(table.assign(n=table["n"].where(table["kind"].ne("final"), 100)), series)
    assert found.outcome == "undecided"
    assert "a: n differs (100 to 1,000) and top_share depends on n" in found.sentence


def test_layers_of_a_network_that_pools() -> None:
    """By the cosine over all pairs, which depends on n, its layers are not compared; by that between documents they are."""
    decide = all_claims["resnet50_falls_with_depth"].decide
    for metric, outcome in (("mean_cosine", "undecided"), ("between_cosine", "holds")):
        table, series = tables(same_models(["resnet-50"], "convolution", [0.9 - 0.05 * i for i in range(12)], metric=metric))
        found = decide(unequal_layers(table, "mean_cosine"), series)
        assert found.outcome == outcome
        assert found.sentence.startswith("Not compared: resnet-50: n differs (500 to 1,000)") == (metric == "mean_cosine")


@pytest.mark.parametrize("group", ["vision", "convolution"])
def test_drift_of_networks_that_pool(group: str) -> None:
    """Their layers are compared by the cosine between documents; a network without it is left out."""
    vision = group == "vision"
    rows = drifting_models(("a", "b", "c", "d", "e", "f"), group, 1 if vision else -1, 60)[0]
    between = [one | {"metric": "between_cosine"} for one in rows if one["metric"] == "mean_cosine"]
    decide = all_claims["drift_explains_vision_models" if vision else "drift_leaves_out_convolutions"].decide
    for given, outcome in (([*rows, *between], "holds"), (rows, "undecided")):
        table, series = tables((given, []))
        found = decide(unequal_layers(table, "mean_cosine"), series)
        assert found.outcome == outcome
        assert (
            "Not compared: a: n differs between layers (500 to 1,000) and mean_cosine depends on n; measure between_cosine too; b: "
            in found.sentence
        ) == (outcome == "undecided")


@pytest.mark.parametrize("name", ["decoders_rise_above_encoders", "mask_makes_the_bell", "mask_makes_the_share"])
def test_models_of_different_n_are_not_compared_with_each_other(name: str) -> None:
    """B and the top share depend on n. At equal n the claim is decided, at different n it says which n."""
    table, series = tables(CASES[name][0])
    decide = all_claims[name].decide
    equal = table.assign(interval_about=THIS_N, n=5000)
    assert decide(equal, series).outcome == "holds"
    verdict = decide(equal.assign(n=equal["n"].where(table["model"].ne(table["model"].iloc[0]), 4000)), series)
    assert verdict.outcome == "undecided"
    assert verdict.sentence.startswith("Not compared: n differs (4,000 to 5,000) and ")
    assert verdict.sentence.endswith("depends on n; measure all of them with --max-tokens 4000.")
    assert math.isnan(verdict.effect)
    of_population = equal.assign(interval_about=POPULATION, n=range(4000, 4000 + 100 * len(equal), 100))
    assert decide(of_population, series).outcome == "holds"
