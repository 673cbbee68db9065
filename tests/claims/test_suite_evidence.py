"""The rows of a suite: which token policy and which step count, and what an interval is over."""

import math

import pandas as pd
import pytest

from isoscope.claims.suite_evidence import final_rows, mean_over_seeds, seed_means, suite_rows
from isoscope.core.table import TABLE_COLUMNS, make_table

WHERE = {"model": "toy", "stack": "decoder", "layer": 1}


def test_a_change_of_one_seed_has_no_interval():
    numbers = {"value": 1.0, "low": 0.5, "high": 1.5, "kind": "hidden"}
    made = [{"metric": "top_share_change", "policy": "all", "n": 1}, {"metric": "alignment_p", "policy": "all", "n": 1}]
    made += [{"metric": "top_share_change", "policy": "body", "n": 5}]
    table = make_table([WHERE | numbers | row for row in made], TABLE_COLUMNS)
    change = suite_rows(table, "top_share_change")["toy"].iloc[0]
    assert (change["policy"], change["value"], change["freedom"]) == ("all", 1.0, math.inf)
    assert math.isnan(change["low"])
    assert suite_rows(table, "alignment_p")["toy"].iloc[0]["low"] == 0.5
    body = suite_rows(table[table["policy"].eq("body")], "top_share_change")["toy"].iloc[0]
    assert (body["low"], body["freedom"]) == (0.5, 4.0)


def test_the_last_step_stands_for_a_suite_and_untrained_models_for_nothing():
    metric = {"metric": "qk_cosine", "kind": "attention", "policy": "all", "stack": "decoder", "layer": 1, "revision": "r"}
    made = [{"model": "toy", "step": 0, "value": 0.1}, {"model": "toy", "step": 8, "value": 0.2}]
    made += [{"model": "single", "value": 0.3}, {"model": "untrained:single", "value": 0.4}]
    found = final_rows(make_table([metric | row for row in made], TABLE_COLUMNS), "qk_cosine")
    assert {name: rows["value"].tolist() for name, rows in found.items()} == {"toy": [0.2], "single": [0.3]}


def test_seeds_are_the_units():
    """Seed means 1 and 3: mean 2, Student's half width 12.706 · √2 / √2."""
    rows = pd.DataFrame({"seed": [0, 0, 1], "value": [0.0, 2.0, 3.0]})
    mean = mean_over_seeds(seed_means(rows))
    assert (mean.value, mean.low) == pytest.approx((2.0, 2 - 12.706), abs=1e-3)
    alone = mean_over_seeds(seed_means(rows[rows["seed"].eq(0)]))
    assert alone.value == 1.0
    assert math.isnan(alone.low)
