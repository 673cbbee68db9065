"""Claims about the cosine over the layers."""

from __future__ import annotations

import pandas as pd

from isoscope.claims import all_claims
from tests.claims.made_rows import RISING, THREE, join_tables, layer_rows, row, same_models, t5_models, tables

EVERY_TRANSFORMER = all_claims["every_transformer_has_an_anisotropic_layer"]


def test_thresholds_that_disagree_leave_it_undecided() -> None:
    verdict = EVERY_TRANSFORMER.decide(*tables(same_models(THREE, "token", [0.05, 0.15])))
    assert verdict.outcome == "undecided"
    assert "depends on the threshold" in verdict.sentence
    assert all("depends on the threshold" in finding.note for finding in verdict.findings)


def test_one_model_that_fails_refutes_it() -> None:
    made = join_tables(same_models(THREE, "token", RISING), same_models(["d"], "token", [0.01]))
    verdict = EVERY_TRANSFORMER.decide(*tables(made))
    assert verdict.outcome == "fails"
    assert "surely not in d" in verdict.sentence
    assert (verdict.effect, verdict.threshold) == (0.75, 0.25)


def test_without_an_interval_nothing_is_decided() -> None:
    rows = [row(name, "token", "between_cosine", 0.9, float("nan"), layer=1) for name in THREE]
    verdict = EVERY_TRANSFORMER.decide(*tables((rows, [])))
    assert verdict.outcome == "undecided"
    assert "(layer 1; no interval)" in verdict.sentence


def test_the_last_step_stands_for_a_suite() -> None:
    steps = [
        cosine | {"step": step, "seed": 0, "revision": str(step)}
        for name in THREE
        for step, value in ((0, 0.01), (100, 0.6))
        for cosine in layer_rows(name, "trained", [value])
    ]
    verdict = EVERY_TRANSFORMER.decide(*tables((steps, [])))
    assert verdict.outcome == "holds"
    assert [finding.effect for finding in verdict.findings] == [0.6] * 3


def test_a_model_in_several_runs_counts_once() -> None:
    made = same_models(THREE, "token", RISING)
    table, series = tables(join_tables(made, made))
    assert len(EVERY_TRANSFORMER.decide(pd.concat([table, table]), series).findings) == 3


def test_a_named_model_that_was_not_measured_leaves_it_undecided() -> None:
    claim = all_claims["t5_decoders_are_extreme"]
    table, series = tables(t5_models(0.95))
    verdict = claim.decide(table[table["model"].eq("t5-base")], series)
    assert verdict.outcome == "undecided"
    assert "not measured: ByT5" in verdict.sentence
    table, series = tables(t5_models(0.6))
    assert claim.decide(table[table["model"].eq("t5-base")], series).outcome == "fails"


def test_the_cosine_of_rectified_features_leaves_convolutions_undecided() -> None:
    """At 0.32, all networks are above the threshold; less the 1/π that rectified features have by themselves, none is."""
    rows = [cosine | {"null": 0.318} for name in "abcdef" for cosine in layer_rows(name, "convolution", [0.33, 0.32])]
    verdict = all_claims["most_convolutions_are_isotropic"].decide(*tables((rows, [])))
    assert verdict.outcome == "undecided"
    assert "1/π" in verdict.sentence
