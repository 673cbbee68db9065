"""Sentences about the shape of a profile, against tables whose answer is known."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, make_table
from isoscope.report.line import all_lines
from isoscope.report.shape import bell_heights, bell_verdict, bell_without_sinks, encoders_and_decoders, intrinsic_dimension, share_profile
from isoscope.report.summary import summarise

BELLS = {"all": (0.60, 0.02), "no-special": (0.60, 0.02), "body": (0.50, 0.03), "body-no-sink": (0.01, 0.02), "sink": (0.9, 0.01)}


def model(
    name: str = "org/model",
    stack: str = "decoder",
    bells: dict[str, tuple[float, float]] = BELLS,
    *,
    spread: float = 0.7,
    note: str = "",
    modality: str = "text",
) -> list[dict[str, object]]:
    """Rows of one model: profiles by policy with value and half width, and an intrinsic dimension by layer."""
    who = {"model": name, "stack": stack, "modality": modality, "family": stack, "kind": "hidden", "n": 900, "d": 64}
    rows: list[dict[str, object]] = []
    for policy, (value, half) in bells.items():
        for metric, middle in (("bell", value), ("bell_linear", value / 4), ("share_range", spread), ("share_range_linear", spread / 4)):
            ends = {"low": middle - half, "high": middle + half, "spec": json.dumps({"note": note} if note else {})}
            rows.append(who | {"policy": policy, "metric": metric, "value": middle} | ends)
    for layer, value in enumerate((9.0, 14.0, 21.0, 12.0)):
        at = {"layer": layer, "policy": "all", "metric": "two_nn", "value": value, "low": value - 1, "high": value + 1, "null": 33.0}
        rows.append(who | at)
    return rows


def lines_of(*models: list[dict[str, object]]):
    return all_lines(make_table([row for rows in models for row in rows], TABLE_COLUMNS), make_table([], SERIES_COLUMNS))


def test_a_bell_that_sinks_make():
    (line,) = lines_of(model())
    said = str(share_profile(line))
    assert said.startswith("Top share, squared: bell-shaped, B = 0.600 (95 % interval 0.580 to 0.620), range over the blocks 0.700 (95 % ")
    assert "(tokens: all, no-special); bell-shaped, B = 0.500 (95 % interval 0.470 to 0.530)" in said
    assert "not bell-shaped, B = 0.0100 (95 % interval -0.0100 to 0.0300)" in said
    assert "Top share, linear: bell-shaped, B = 0.150" in said
    assert "B = 0.900" not in said  # the few sinks by themselves
    assert bell_without_sinks(line) == (
        "The bell does not survive without sinks: B = 0.500 for body tokens, 0.0100 (95 % interval -0.0100 to 0.0300) without sinks."
    )


@pytest.mark.parametrize(
    ("without", "answer"), [((0.4, 0.1), "bell survives without sinks: "), ((0.05, 0.1), "bell may or may not survive without sinks: ")]
)
def test_other_answers_about_sinks(without, answer):
    (line,) = lines_of(model(bells=BELLS | {"body-no-sink": without}))
    assert answer in str(bell_without_sinks(line))


def test_a_bell_of_the_first_token_is_none_of_the_body():
    (line,) = lines_of(model(bells=BELLS | {"body": (0.02, 0.01)}))
    said = "The bell is lost, or uncertain, already without special and first tokens: B = 0.0200 for body tokens"
    assert str(bell_without_sinks(line)).startswith(said)
    (flat,) = lines_of(model(bells=dict.fromkeys(BELLS, (0.0, 0.01))))
    assert bell_without_sinks(flat) is None


def test_without_a_split_nothing_is_said_of_sinks():
    (line,) = lines_of(model(bells={"all": (0.2, 0.3)}))
    said = str(share_profile(line))
    assert bell_without_sinks(line) is None
    assert said.startswith("Top share, squared: undecided whether bell-shaped, B = 0.200 (95 % interval -0.100 to 0.500)")


def test_flat_is_said_by_the_upper_bound():
    (flat,) = lines_of(model(bells={"all": (-0.01, 0.02)}, spread=0.07))
    assert "not bell-shaped, and flat, B = -0.0100" in str(share_profile(flat))
    (wide,) = lines_of(model(bells={"all": (-0.01, 0.05)}, spread=0.07))
    assert "and flat" not in str(share_profile(wide)).partition(" Top share, linear")[0]


def test_too_few_blocks_are_said():
    rows = [row | {"value": None, "low": None, "high": None} for row in model(note="needs at least 6 blocks, and this stack has 3")]
    (line,) = lines_of(rows)
    assert share_profile(line) == "The shape of the top share is not judged: needs at least 6 blocks, and this stack has 3."


@pytest.mark.parametrize(("low", "high", "word"), [(0.051, 0.2, "holds"), (0.0, 0.049, "fails"), (0.05, 0.05, "undecided")])
def test_verdicts_are_by_the_bounds(low, high, word):
    assert bell_verdict(pd.Series({"low": low, "high": high})) == word


def test_the_intrinsic_dimension_has_its_place():
    (line,) = lines_of(model())
    assert intrinsic_dimension(line) == (
        "The intrinsic dimension (TwoNN) is least in layer 0, 9.00 (95 % interval 8.00 to 10.0), and greatest in layer 2, 21.0 (95 % "
        "interval 20.0 to 22.0); isotropic points at the same n in all 64 dimensions would give 33.0."
    )


def test_models_are_compared_where_there_are_three_of_each():
    bells = [0.5, 0.6, 0.7, 0.01, 0.02, 0.03, 0.0]
    names = [("decoder", i) for i in range(3)] + [("encoder", i) for i in range(4)]
    made = [model(f"org/{role}-{i}", role, {"all": (value, 0.01)}) for value, (role, i) in zip(bells, names, strict=True)]
    lines = lines_of(*made)
    said = str(encoders_and_decoders(lines[0], lines))
    assert "(squared, tokens: all) is 0.600 on average over 3 decoders and 0.0150 over 4 encoders" in said
    assert "p = 0.029 (the least that this many models can give is 0.029)" in said  # 1/35
    two = [lines[0], lines[1], *lines[3:]]
    assert encoders_and_decoders(lines[0], two) == (
        "Whether decoders differ from encoders cannot be decided with 2 decoders and 4 encoders; it takes 3 of each."
    )
    assert encoders_and_decoders(lines[0], lines[:3]) is None


def test_what_does_not_count_as_a_model():
    bells = {"all": (0.5, 0.1)}
    twins = [model("untrained:org/a", "decoder", bells), model("org/speech", "encoder", bells, modality="speech")]
    seeds = [[row | {"seed": seed} for row in model("org/b", "decoder", {"all": (seed / 10, 0.1)})] for seed in (1, 3)]
    both = [model("org/t5", stack, bells) for stack in ("encoder", "decoder")]
    found = bell_heights(lines_of(model("org/a", "encoder", bells), *twins, *seeds, *both))
    assert found.set_index("model")["value"].to_dict() == {"org/a": 0.5, "org/b": pytest.approx(0.2)}


def test_the_summary_has_its_topics_and_a_table_without_them_has_none():
    first, second = lines_of(model(), model("org/other", "encoder"))
    assert {"Shape over the blocks", "Encoders and decoders", "Intrinsic dimension"} <= set(summarise(first, [first, second]))
    (bare,) = lines_of([row | {"metric": "mean_cosine"} for row in model() if "layer" in row])
    assert share_profile(bare) is intrinsic_dimension(bare) is encoders_and_decoders(bare, [bare]) is None


def test_an_interval_about_this_n_says_n():
    (line,) = lines_of([row | {"interval_about": "this n"} for row in model()])
    assert "is least in layer 0, 9.00 (95 % interval 8.00 to 10.0 at n = 900), and greatest" in intrinsic_dimension(line)


def test_models_of_different_n_are_not_compared():
    names = [("decoder", i) for i in range(3)] + [("encoder", i) for i in range(3)]
    rows = [
        [row | {"interval_about": "this n", "n": 900 + 100 * i} for row in model(f"org/{role}-{i}", role, {"all": (0.5, 0.01)})]
        for role, i in names
    ]
    lines = lines_of(*rows)
    assert encoders_and_decoders(lines[0], lines) == (
        "Whether decoders differ from encoders is not decided: n differs (900 to 1,100) and bell depends on n; measure all of them with "
        "--max-tokens 900."
    )
