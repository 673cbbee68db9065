"""Places of layers in a network, and the checkpoint that stands for a training."""

from __future__ import annotations

import pandas as pd

from isoscope.core.model_groups import add_places, list_checkpoints, list_suites, select_first_seed, select_one_checkpoint
from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, make_table
from tests.figures.made_suite import STEPS, SUITES, made_suite
from tests.figures.made_table import made_table, made_zoo


def test_layers_that_were_not_measured_leave_their_place():
    zoo = made_zoo(["gpt2"])
    some = zoo[(zoo["model"] == "gpt2") & zoo["layer"].isin([0, 4, 12]) & (zoo["kind"] == "hidden")]
    assert sorted(add_places(some)["place"].unique()) == [0, 4, 12]


def test_one_checkpoint_is_the_last_of_the_first_seed_and_step_0():
    table, series = select_one_checkpoint(*made_suite())
    found = table[["model", "step", "seed"]].drop_duplicates()
    assert {tuple(row) for row in found.itertuples(index=False)} == {
        (name, step, 0) for suite in SUITES for name, step in ((suite, STEPS[-1]), (f"untrained:{suite}", 0))
    }
    assert not table["metric"].isin(["alignment", "same_direction", "rise_then_fall"]).any()
    assert table["revision"].notna().all()
    again = select_one_checkpoint(table, series)
    pd.testing.assert_frame_equal(again[0], table)


def test_models_that_are_no_suites_stay_as_they_are():
    table, series = made_table()
    assert list_suites(table) == []
    pd.testing.assert_frame_equal(select_one_checkpoint(table, series)[0], table)


def test_the_first_seed_is_that_with_the_most_steps_and_rows_about_all_seeds_are_none():
    rows = [(0, 0), (0, 9), (1, 0), (1, 5), (1, 9), (2, 0), (2, 5), (2, 9), *((None, step) for step in (0, 1, 5, 9))]
    frame = make_table([{"model": "m", "seed": seed, "step": step, "revision": "r"} for seed, step in rows], TABLE_COLUMNS)
    assert len(list_checkpoints(frame)) == 8
    assert set(select_first_seed(frame)["seed"]) == {1}
    alone = frame.assign(seed=pd.array([pd.NA] * len(frame), dtype="Int64"))
    assert len(select_first_seed(alone)) == len(alone)
    assert set(select_one_checkpoint(alone, make_table([], SERIES_COLUMNS))[0]["model"]) == {"m", "untrained:m"}


def test_a_training_without_step_0_has_no_twin():
    table, series = made_suite()
    table = table[table["step"].ne(0).fillna(True)]
    assert set(select_one_checkpoint(table, series.iloc[:0])[0]["model"]) == set(SUITES)
