"""Contracts that every figure of the registry keeps: nothing to draw is None, a chart is valid JSON and can be printed."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from isoscope.charts.print_chart import render_chart
from isoscope.core.model_groups import select_one_checkpoint
from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, make_table
from isoscope.figures import figures
from isoscope.studies.isotropic_null.experiment import DIMENSIONS
from isoscope.studies.isotropic_null.experiment import isotropic_tables as null_tables
from isoscope.studies.untrained_block.curves import CURVES, HISTOGRAM
from tests.figures.specs import NO_SERIES

NAMES = figures.names()
OVER_STEPS = [figure.name for figure in figures if figure.over_steps]
OF_LAYERS = ["dimension_share", "drift_and_cosine", "layer_profile", "norms", "policy_difference", "spectrum"]
OF_ZOO = ["token_models", "character_models", "speech_models", "vision_models", "convolutional_models"]
OF_ZOO += ["drift_spearman", "drift_pearson", "isotropic_level"]
OF_SHAPE = ["shape_of_anisotropy", "intrinsic_dimension", "dimension_scales", "dimension_sizes", "local_isotropy"]


def made_block() -> tuple[pd.DataFrame, pd.DataFrame]:
    """The series of an untrained block: two draws, three norms of the bias, one block."""
    who = {"model": "block", "revision": "r", "policy": "all", "stack": "block", "kind": "block"}
    places = [{"seed": seed, "layer": layer} for seed in (0, 1) for layer in (0, 1)]
    points = [
        who | place | {"name": name, "x": x, "y": 0.1 + x + 0.01 * place["seed"]}
        for name in CURVES
        for place in places
        for x in (0.0, 1.0, 5.0)
    ]
    points += [who | place | {"name": HISTOGRAM, "x": x, "y": 1.0, "weight": 5.0} for place in places for x in (-1.0, 0.0, 1.0)]
    return make_table([who | {"metric": "norm_fixed_point", "value": 2.0}], TABLE_COLUMNS), make_table(points, SERIES_COLUMNS)


@pytest.fixture(scope="module")
def charts(tables, zoo, shape_tables, suite) -> dict[str, dict]:
    """Every figure, drawn from the first tables that it can be drawn from."""
    small = tuple(frame[frame["model"] == tables[0]["model"].iloc[0]] for frame in tables)
    heads = select_one_checkpoint(*suite)
    made: dict[str, dict] = {}
    for inputs in (small, (zoo, NO_SERIES), shape_tables, heads, suite, made_block(), null_tables(DIMENSIONS, 4096)):
        for figure in figures:
            if figure.name not in made and (chart := figure.draw(*inputs)) is not None:
                made[figure.name] = chart.to_dict()
    return made


def test_every_figure_is_drawn(charts):
    assert sorted(charts) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_figure_is_declared_completely_and_draws_nothing_from_empty_tables(name):
    figure = figures[name]
    assert figure.name == name
    assert figure.title
    assert figure.caption.endswith(".")
    assert figure.draw(make_table([], TABLE_COLUMNS), NO_SERIES) is None


def test_charts_hold_only_what_json_can_say(charts):
    for name, spec in charts.items():
        assert json.dumps(spec, allow_nan=False), name


def test_charts_can_be_printed(charts):
    for name in [*OF_SHAPE, *(f"training_{kind}" for kind in ("clouds", "paths", "cosine", "onsets", "dimension", "components"))]:
        picture = render_chart(charts[name], "svg").decode()
        assert picture.count("<path") > 20, name
        assert "NaN" not in picture, name


def test_figures_over_steps_are_those_of_trainings_each_with_its_place():
    assert [name for name in NAMES if name.startswith("training_")] == OVER_STEPS
    assert sorted(figures[name].order for name in OVER_STEPS) == list(range(1, len(OVER_STEPS) + 1))


@pytest.mark.parametrize("name", OVER_STEPS)
def test_figure_over_steps_draws_nothing_without_a_suite(name, tables, suite):
    assert figures[name].draw(*tables) is None
    assert figures[name].draw(*select_one_checkpoint(*suite)) is None


@pytest.mark.parametrize("name", OF_LAYERS)
def test_figure_of_layers_draws_nothing_without_layers(name, tables):
    table, series = tables
    assert figures[name].draw(table[table["kind"] == "input_embedding"], series.iloc[:0]) is None


@pytest.mark.parametrize("name", OF_ZOO)
def test_figure_of_groups_draws_nothing_without_cosines_or_groups(name, zoo):
    assert figures[name].draw(zoo[zoo["metric"] == "drift_norm"], NO_SERIES) is None
    assert figures[name].draw(zoo.assign(modality=None), NO_SERIES) is None


@pytest.mark.parametrize("name", OF_SHAPE)
def test_figure_of_shape_draws_nothing_from_numbers_of_whole_stacks(name, shape_tables):
    table, series = shape_tables
    assert figures[name].draw(table[table["metric"] == "bell"], series.iloc[:0]) is None
