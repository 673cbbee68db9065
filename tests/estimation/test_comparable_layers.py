"""Layers of different n are compared by the cosine between documents, and all others by that over all pairs."""

import numpy as np
import pytest

from isoscope.core.number import POPULATION, THIS_N
from isoscope.core.table import TABLE_COLUMNS, make_table
from isoscope.estimation.comparable_layers import comparable_over_layers
from isoscope.estimation.drift_test import associations

STEPS = np.random.default_rng(0).normal(size=20).cumsum() * 0.01 + 0.5
CURVES = {"mean_cosine": -STEPS, "between_cosine": STEPS, "drift_ratio": STEPS}


def made(n, metrics=tuple(CURVES)):
    """A model whose drift goes with its cosine between documents and against that over all pairs."""
    where = {"model": "net", "revision": "r", "modality": "images", "family": "convolution", "stack": "backbone", "kind": "hidden"}
    rows = [
        where
        | {"layer": layer, "policy": "all", "metric": metric, "value": CURVES[metric][layer], "n": n[layer], "d": 8}
        | {"interval_about": THIS_N if metric == "mean_cosine" else POPULATION}
        for metric in metrics
        for layer in range(20)
    ]
    return make_table(rows, TABLE_COLUMNS)


@pytest.mark.parametrize(("n", "rho"), [([1000] * 20, -1.0), ([1000] * 10 + [250] * 10, 1.0), ([1000] * 19 + [995], -1.0)])
def test_which_cosine_it_is(n, rho):
    assert associations(made(n)).loc[0, "difference"] == pytest.approx(rho)


def test_a_model_without_the_other_is_named():
    rows, left = comparable_over_layers(made([1000] * 10 + [250] * 10, ("mean_cosine", "drift_ratio")))
    assert set(rows["metric"]) == {"mean_cosine", "drift_ratio"}
    assert left == {"net": "n differs between layers (250 to 1,000) and mean_cosine depends on n; measure between_cosine too"}
