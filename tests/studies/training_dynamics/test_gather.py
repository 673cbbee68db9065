"""The checkpoints of a suite: which seeds count, which step is the last, and which heads are drawn."""

import json

import numpy as np
import pandas as pd
import pytest

from isoscope.core.table import TABLE_COLUMNS, make_table
from isoscope.estimation.inference import Estimate
from isoscope.studies.training_dynamics.gather import Head, MeasuredSuite, Place, extreme_heads, make_row

CHECKPOINTS = ((0, 0), (0, 9), (1, 0), (1, 3), (1, 9), (2, 0), (2, 3), (2, 6), (3, 3), (3, 9))
"""Seed and step. Seed 1 is the first of those with three steps; 0 lacks a step between, 2 the last and 3 the first."""


@pytest.fixture
def suite() -> MeasuredSuite:
    return MeasuredSuite({"model": "toy"}, {"data": "text"}, CHECKPOINTS)


def test_the_main_seed_sets_the_ends_and_the_seeds_that_count(suite):
    assert suite.main == 1
    assert suite.ends == (0, 9)
    assert suite.complete_seeds == [0, 1]
    assert suite.curve_seeds == [1]


def cosine_rows(values: dict[int, float], step: int = 9, seed: int = 1) -> pd.DataFrame:
    """cos(Q̄, K̄) by head, in layer 2."""
    where = {"model": "toy", "metric": "qk_cosine", "kind": "attention", "stack": "decoder", "layer": 2, "seed": seed, "step": step}
    return make_table([where | {"head": head, "value": value, "d": 16} for head, value in values.items()], TABLE_COLUMNS)


def test_extreme_heads_are_those_of_the_last_step_of_the_main_seed(suite):
    rows = pd.concat([cosine_rows({0: 0.2, 1: -0.5, 2: 0.7, 3: -0.1}), cosine_rows({3: 0.9}, step=3), cosine_rows({3: -0.9}, seed=0)])
    place = Place("decoder", 2)
    assert extreme_heads(suite, rows) == (Head(place, 2), Head(place, 1))
    assert extreme_heads(suite, cosine_rows({0: 0.2, 1: np.nan})) == (Head(place, 0), None)


def test_a_row_joins_notes_and_keeps_the_settings(suite):
    row = make_row(suite, "onset_drift", Estimate(4.0, 2.0, 8.0, "over 2 seeds"), note="first step", verdict="up", layer=3)
    assert (row["model"], row["value"], row["low"], row["high"], row["layer"], row["policy"]) == ("toy", 4.0, 2.0, 8.0, 3, "all")
    assert json.loads(row["spec"]) == {"data": "text", "note": "over 2 seeds; first step", "verdict": "up"}
