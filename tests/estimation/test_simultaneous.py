"""Intervals of several layers that hold all at once: between one layer's and Bonferroni's, and right on average."""

import numpy as np
import pytest

from isoscope.claims.evidence import greatest_layer, layer_cosines, least_layer
from isoscope.core.numerics import upper_quantile, widening
from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, make_table
from isoscope.estimation.simultaneous import band_factor


@pytest.mark.parametrize("together", [0.0, 0.5, 0.9, 1.0])
def test_the_farthest_of_all_layers_stays_within_the_band(together):
    """Layers of 64 groups with a common part: the largest |t| of thirteen exceeds the band in about 5 %."""
    rng, draws, outside = np.random.default_rng(0), 400, 0
    for _ in range(draws):
        moves = together**0.5 * rng.standard_normal((64, 1)) + (1 - together) ** 0.5 * rng.standard_normal((64, 13))
        t = moves.mean(0) / moves.std(0, ddof=1) * 8
        outside += np.abs(t).max() > band_factor(moves - moves.mean(0), 63) * upper_quantile(0.025, 63)
    assert outside / draws == pytest.approx(0.05, abs=3 * (0.0475 / draws) ** 0.5)


def test_it_lies_between_one_layer_and_bonferroni():
    moves = np.random.default_rng(1).standard_normal((64, 13))
    assert band_factor(moves[:, :1], 63) == 1
    assert band_factor(np.tile(moves[:, :1], 13), 63) == pytest.approx(1, abs=0.02)  # of 9,999 draws
    assert 1 < band_factor(moves + 2 * moves[:, :1], 63) < band_factor(moves, 63) <= widening(13, 63)
    assert band_factor(moves, 5) > band_factor(moves, 63)
    assert band_factor(np.column_stack([moves[:, 0], np.zeros(64)]), 63) == 1  # a layer that no document moves


def layered(left_out_of=(0, 1, 2)):
    """A model of three layers with a cosine of 0.3 each, and the layer_cosines without each of ten groups."""
    rng, base = np.random.default_rng(2), {"model": "m", "family": "encoder", "modality": "text", "stack": "encoder", "policy": "all"}
    base |= {"kind": "hidden", "revision": "r"}
    rows = [base | {"layer": i, "metric": "between_cosine", "value": 0.3, "low": 0.2, "high": 0.4, "d": 768} for i in range(3)]
    shared = rng.standard_normal(10)
    base |= {"name": "between_cosine_left_out", "weight": 5}
    points = [
        base | {"layer": i, "x": g, "y": 0.3 + 0.01 * (shared[g] + 0.3 * rng.standard_normal())} for i in left_out_of for g in range(10)
    ]
    return make_table(rows, TABLE_COLUMNS), make_table(points, SERIES_COLUMNS)


def test_a_claim_reads_the_band_from_the_series():
    rows = layer_cosines(*layered())["m"]
    assert rows["freedom"].tolist() == [9.0] * 3
    assert 1 < rows["widen"].iloc[0] < widening(3, 9)
    assert greatest_layer(rows).low == pytest.approx(0.3 - 0.1 * rows["widen"].iloc[0])
    assert (greatest_layer(rows).high, least_layer(rows).low) == (0.4, 0.2)
    assert least_layer(rows).high == pytest.approx(0.3 + 0.1 * rows["widen"].iloc[0])


def test_without_the_series_of_every_layer_bonferroni_stands_in():
    for layers in ((), (0, 1)):
        rows = layer_cosines(*layered(layers))["m"]
        assert "widen" not in rows
        assert greatest_layer(rows).low == pytest.approx(0.3 - 0.1 * widening(3))
