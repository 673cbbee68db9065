"""A figure is a function of the two tables with a caption."""

import dataclasses

import pandas as pd
import pytest

from isoscope.core.figure import figure

TABLE, SERIES = pd.DataFrame({"value": [1.0, 2.0]}), pd.DataFrame({"y": [3.0]})


@figure(title="Sums", caption="Their sum.", topic="Sums", order=3, over_steps=True)
def add_up(table, series):
    """Drawn as a number."""
    return table["value"].sum() + series["y"].sum()


def test_a_figure_has_the_name_of_its_function_and_draws_the_tables():
    assert (add_up.name, add_up.title, add_up.caption, add_up.topic, add_up.order, add_up.over_steps) == (
        *("add_up", "Sums", "Their sum.", "Sums"),
        3,
        True,
    )
    assert add_up.draw(TABLE, SERIES) == 6.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        add_up.name = "other"


def test_another_name_and_the_defaults():
    other = figure(title="T", caption="C.", name="other")(lambda table, series: None)
    assert (other.name, other.topic, other.order, other.over_steps) == ("other", "", 100, False)
    assert other.draw(TABLE, SERIES) is None
