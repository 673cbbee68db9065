"""Colours of curves."""

from __future__ import annotations

import pandas as pd

from isoscope.charts.legends import INK, PALETTE, add_curves, model_curves
from tests.figures.made_table import made_zoo


def test_models_of_a_figure_differ_in_colour_as_long_as_there_are_colours():
    one = made_zoo(["gpt2"])
    many = pd.concat([one.assign(model=f"model {i}", stack=stack) for i in range(9) for stack in ("encoder", "decoder")])
    tones = [curve.tone for curve in model_curves(add_curves(many))]
    assert len(tones) == len(set(tones)) == 9
    assert INK not in tones
    assert set(tones) <= set(PALETTE)
