"""Claims about drift and cosine over layers: which models are pooled."""

from __future__ import annotations

from isoscope.claims import all_claims
from tests.claims.made_rows import THREE, drifting_models, join_tables, tables

CLAIM = all_claims["drift_explains_token_models"]


def test_a_short_model_is_not_pooled() -> None:
    made = join_tables(drifting_models(THREE, "token", 1), drifting_models(["short"], "token", -1, 7))
    verdict = CLAIM.decide(*tables(made))
    assert verdict.outcome == "holds"
    assert "left out: 1 with fewer than 12 layers" in verdict.sentence


def test_a_model_that_the_paper_excepts_is_not_pooled() -> None:
    made = join_tables(drifting_models(THREE[:2], "token", 1), drifting_models(["gpt2"], "decoder", 1))
    verdict = CLAIM.decide(*tables(made))
    assert verdict.outcome == "undecided"
    assert {finding.on for finding in verdict.findings} == set(THREE[:2])
