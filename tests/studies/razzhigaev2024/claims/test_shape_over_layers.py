"""Claims about the shape of the top share over layers."""

from __future__ import annotations

from isoscope.claims import all_claims
from tests.claims.made_rows import POLICIES, THREE, profile_tables, tables


def test_a_bell_must_be_seen_without_sinks() -> None:
    """Without the split it may still fail, but it cannot hold."""
    claim = all_claims["decoders_are_bell_shaped"]
    verdict = claim.decide(*tables(profile_tables(THREE, "decoder", 0.3, ("bell", "bell_linear"), POLICIES[:3])))
    assert verdict.outcome == "undecided"
    assert "--split-body sink" in verdict.sentence
    assert claim.decide(*tables(profile_tables(THREE, "decoder", -0.2, ("bell",), POLICIES[:3]))).outcome == "fails"


def test_a_flat_encoder_must_be_seen_without_sinks() -> None:
    claim = all_claims["encoders_are_flat"]
    assert claim.decide(*tables(profile_tables(THREE, "token", 0.05, ("share_range",), POLICIES[:3]))).outcome == "undecided"
    assert claim.decide(*tables(profile_tables(THREE, "token", 0.3, ("share_range",), POLICIES[:3]))).outcome == "fails"
