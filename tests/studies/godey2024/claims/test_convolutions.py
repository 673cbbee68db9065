"""Claims about convolutional networks, whose features are rectified."""

from __future__ import annotations

from isoscope.claims import all_claims
from tests.claims.made_rows import layer_rows, tables


def test_the_cosine_of_rectified_features_leaves_convolutions_undecided() -> None:
    """At 0.32, all networks are above the threshold; less the 1/π that rectified features have by themselves, none is."""
    rows = [cosine | {"null": 0.318} for name in "abcdef" for cosine in layer_rows(name, "convolution", [0.33, 0.32])]
    verdict = all_claims["most_convolutions_are_isotropic"].decide(*tables((rows, [])))
    assert verdict.outcome == "undecided"
    assert "1/π" in verdict.sentence
