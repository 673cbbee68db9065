"""Every sign of failure on a table that shows it, and none on one that does not."""

from __future__ import annotations

import pytest

from isoscope.core.errors import Failures
from isoscope.report.diagnosis import diagnosis
from tests.claims.made_rows import HEADS, LAYERS, RISING, Row, head_rows, layer_rows, row, tables

WIDE, NARROW = [0.1] * 7, [0.7] * 7


def signs(rows: list[Row]) -> dict[str, tuple[str, str]]:
    """Name of a sign: its model, and its evidence."""
    found = diagnosis(tables((rows, []))[0], Failures())
    assert all(sign.meaning.endswith(".") and sign.threshold and sign.evidence for sign in found)
    return {sign.name: (sign.model, sign.evidence) for sign in found}


def attention(metric: str, value: float, kind: str = "attention") -> list[Row]:
    return [row("m", "token", metric, value, kind=kind, layer=layer, head=head, d=64) for layer in LAYERS for head in HEADS]


def over_steps(metric: str, values: tuple[float, float, float], kind: str = "hidden") -> list[Row]:
    return [
        row("m", "trained", metric, value, kind=kind, layer=2, step=step, seed=0, revision=str(step))
        for step, value in zip((0, 10, 100), values, strict=True)
    ]


@pytest.mark.parametrize(
    ("sick", "well", "name", "evidence"),
    [
        (layer_rows("m", "token", NARROW), layer_rows("m", "token", RISING), "high cosine in all layers", "0.700 (layer 0)"),
        (
            layer_rows("m", "token", NARROW) + attention("attention_entropy_normalised", 0.1),
            layer_rows("m", "token", WIDE) + attention("attention_entropy_normalised", 0.1),
            "low entropy with high cosine",
            "layers 1–6; in layer 1 entropy 0.100",
        ),
        (
            attention("qk_cosine", -0.8) + attention("drift_ratio", 0.5, "query") + attention("drift_ratio", 0.5, "key"),
            attention("qk_cosine", -0.8) + attention("drift_ratio", 0.5, "query") + attention("drift_ratio", 0.01, "key"),
            "queries and keys drift in parallel",
            "18 of 18 heads",
        ),
        (
            [row("m", "decoder", "share_range", 0.05)],
            [row("m", "token", "share_range", 0.05)],
            "flat share over a decoder",
            "0.050",
        ),
        ([row("m", "decoder", "bell", -0.1)], [row("m", "decoder", "bell", 0.2)], "no bell in a decoder", "B = -0.100"),
        (
            over_steps("effective_rank", (20.0, 60.0, 10.0)),
            over_steps("effective_rank", (20.0, 60.0, 30.0)),
            "rank collapses over steps",
            "layer 2: 10.0 at step 100, 60.0 at step 10",
        ),
        (
            over_steps("mean_cosine", (0.1, 0.5, 0.99)),
            over_steps("mean_cosine", (0.1, 0.99, 0.5)),
            "cosine collapses over steps",
            "0.990 at step 100",
        ),
        (
            head_rows("m", "attention_entropy_normalised", (1.0, 0.5, 0.02)),
            head_rows("m", "attention_entropy_normalised", (1.0, 0.02, 0.5)),
            "entropy collapses over steps",
            "at step 100",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_sign_is_told_where_it_is_and_not_where_it_is_not(sick: list[Row], well: list[Row], name: str, evidence: str) -> None:
    assert signs(sick)[name][0] == "m"
    assert evidence in signs(sick)[name][1]
    assert name not in signs(well)


def test_collapse_and_undefined_numbers_are_failures_and_come_first() -> None:
    """Everything else is an observation: neither good nor bad."""
    rows = [*layer_rows("m", "token", NARROW), *over_steps("effective_rank", (20.0, 60.0, 10.0)), row("m", "decoder", "bell", -0.1)]
    rows += [row("z", "token", "mean_cosine", float("nan"), layer=layer) for layer in (2, 1)]
    found = diagnosis(tables((rows, []))[0], Failures())
    assert [(sign.model, sign.name) for sign in found if sign.is_failure] == [
        ("m", "rank collapses over steps"),
        ("z", "no direction is defined"),
    ]
    assert found[1].evidence == "layers 1–2"
    assert {sign.name for sign in found[2:]} == {"high cosine in all layers", "no bell in a decoder"}


def test_a_bound_that_reaches_the_threshold_is_no_sign() -> None:
    assert "high cosine in all layers" not in signs(layer_rows("m", "token", NARROW, half=0.3))
    assert "no bell in a decoder" not in signs([row("m", "decoder", "bell", 0.0, 0.1)])


def test_nothing_to_say() -> None:
    assert signs([]) == {}
    untrained = [one | {"model": "untrained:m"} for one in layer_rows("m", "token", NARROW)]
    assert signs(untrained) == {}


def test_models_come_in_the_order_of_the_table() -> None:
    rows = [*layer_rows("b", "token", NARROW), row("a", "decoder", "bell", -0.1), *layer_rows("a", "decoder", NARROW)]
    found = diagnosis(tables((rows, []))[0], Failures())
    assert [sign.model for sign in found] == ["b", "a", "a"]
