"""Published curves and the names of their models."""

from __future__ import annotations

import pytest

from isoscope.studies.godey2024.published import CURVES, published_curves


@pytest.mark.parametrize("name", ["gpt2", "openai-community/gpt2", "GPT2", "openai-community--gpt2", "org/gpt2@main"])
def test_names_of_one_model(name):
    assert [curve.origin for curve in published_curves(name)] == ["code", "fig"]


def test_published_values_are_cosines_and_say_how_they_were_read():
    for curve in CURVES:
        assert all(0 < value < 1 for value in curve.values)
        assert curve.origin in ("code", "fig")
        assert len(curve.values) in (1, 13)
