"""The axis of training steps."""

from __future__ import annotations

from isoscope.charts.axes import step_ticks
from tests.figures.made_suite import STEPS


def test_step_0_is_on_the_axis():
    assert step_ticks(STEPS)[0] == 0
    assert step_ticks(STEPS)[-1] == STEPS[-1]
    assert step_ticks([0]) == [0]
    assert step_ticks([500]) == [500]
