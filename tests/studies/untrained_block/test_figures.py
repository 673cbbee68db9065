"""Figures of an untrained block: means and ranges over draws, the gain, and where the fixed point is marked."""

import pandas as pd
import pytest

from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, make_table
from isoscope.figures import figures
from isoscope.runs.run import Run
from isoscope.studies.untrained_block.experiment import Network, Trial, run_experiment
from isoscope.studies.untrained_block.figures import COSINES, bias_points
from tests.claims.made_rows import BLOCK, KINDS, block_row
from tests.studies.untrained_block.small_networks import SMALL


def points(name: str, values: dict[tuple[int, float], tuple[float, float]], model: str = BLOCK) -> list[dict[str, object]]:
    """A curve by layer and norm, its values in two draws."""
    where = KINDS["block"] | {"model": model, "name": name, "policy": "all"}
    return [where | {"layer": layer, "x": x, "seed": seed, "y": y[seed]} for (layer, x), y in values.items() for seed in (0, 1)]


COSINE = {(0, 0.0): (0.0, 0.1), (1, 0.0): (0.2, 0.5), (0, 2.0): (0.5, 0.7), (1, 2.0): (0.4, 0.9), (3, 0.0): (0.6, 0.8)}


def series_of(*curves: list[dict[str, object]]) -> pd.DataFrame:
    return make_table([row for rows in curves for row in rows], SERIES_COLUMNS)


def drawn_values(spec: dict, curve: str) -> dict[float, tuple[float, float, float]]:
    """By norm: mean, least and greatest of a curve in a chart."""
    rows = [row for values in spec["datasets"].values() for row in values if row.get("curve") == curve]
    return {row["x"]: (row["mean"], row["min"], row["max"]) for row in rows}


def test_a_point_is_the_mean_and_the_range_over_draws():
    """Layer 0 is the input; deeper outputs have a label of their own, and the draws of two networks are not mixed."""
    other = {(1, 0.0): (-0.5, -0.5)}
    found, legend = bias_points(series_of(points("block_cosine", COSINE), points("block_cosine", other, "block torch")), COSINES)
    by = found.set_index(["line", "curve", "x"])[["mean", "min", "max", "count"]]
    assert by.loc[BLOCK, "input", 0.0].tolist() == pytest.approx([0.05, 0.0, 0.1, 2])
    assert by.loc[BLOCK, "output", 0.0].tolist() == pytest.approx([0.35, 0.2, 0.5, 2])
    assert by.loc[BLOCK, "output", 2.0].tolist() == pytest.approx([0.65, 0.4, 0.9, 2])
    assert by.loc[BLOCK, "output, block 3", 0.0].tolist() == pytest.approx([0.7, 0.6, 0.8, 2])
    assert by.loc["block torch", "output", 0.0].tolist() == pytest.approx([-0.5, -0.5, -0.5, 2])
    assert len(by) == 6
    assert [entry.name for entry in legend] == ["input", "output", "output, block 3"]
    assert len({tuple(entry.dash) for entry in legend if entry.name.startswith("output")}) == 2


def test_the_gain_is_output_minus_input_of_the_same_draw():
    """Draw 0 gains 0.2 and loses 0.1, draw 1 gains 0.4 and 0.2; ranges of the difference are not differences of the ranges."""
    spec = (
        figures["block_cosine"]
        .draw(make_table([block_row("least_cosine_gain", 0.2, 0.1)], TABLE_COLUMNS), series_of(points("block_cosine", COSINE)))
        .to_dict()
    )
    gain = drawn_values(spec, "output minus input")
    assert gain[0.0] == pytest.approx((0.3, 0.2, 0.4))
    assert gain[2.0] == pytest.approx((0.05, -0.1, 0.2))


@pytest.mark.parametrize("largest", [15.0, 60.0])
def test_the_fixed_point_is_marked_on_the_side_that_has_room(largest):
    norms = {(layer, x): (y, y) for layer, y in ((0, 1.0), (1, 9.0)) for x in (0.0, largest)}
    table = make_table([block_row("norm_fixed_point", 8.25, 0.1)], TABLE_COLUMNS)
    spec = figures["block_norm"].draw(table, series_of(points("block_mean_norm", norms))).to_dict()
    text = str(spec)
    assert "'N* = 8.25'" in text
    assert ("'align': 'right'" in text) is (largest == 15.0)
    never = make_table([block_row("norm_fixed_point", float("nan"), 0.1)], TABLE_COLUMNS)
    assert "N* =" not in str(figures["block_norm"].draw(never, series_of(points("block_mean_norm", norms))).to_dict())


@pytest.mark.usefixtures("one_thread")
def test_every_figure_is_drawn_and_holds_the_mean_and_the_range_over_draws(tmp_path):
    run = Run(tmp_path)
    trial = Trial(SMALL, norms=(0.0, 2.0, 8.0), draws=3)
    run_experiment(run, Network(), trial)
    table, series = run.cells()[0].rows(), run.cells()[0].series()
    own = series[series["name"].eq("block_row_max") & series["x"].eq(8.0)]["y"]
    for name in figures.names():
        if name.startswith("block_"):
            assert figures[name].draw(table, series) is not None, name
            assert figures[name].draw(table.iloc[:0], series.iloc[:0]) is None, name
    spec = figures["block_rows"].draw(table, series).to_dict()
    values = [row for panel in spec["datasets"].values() for row in panel if row["curve"] == "maximum" and row["x"] == 8]
    assert values[0]["mean"] == pytest.approx(own.mean(), rel=1e-4)
    assert values[0]["min"] == pytest.approx(own.min(), rel=1e-4)
    assert values[0]["max"] == pytest.approx(own.max(), rel=1e-4)
