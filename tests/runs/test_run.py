"""The folder of a run: which cells it holds, in which order, and which states of unfinished ones."""

import os
from pathlib import Path

import numpy as np
import pytest

from isoscope.core.errors import IsoscopeError
from isoscope.runs.run import Run
from isoscope.runs.stored_cell import MANIFEST
from tests.runs.made_cells import COLUMNS, KEY, numbers, write_version


def add_cell(run, name, keep="rows"):
    return run.write_cell({"experiment": name}, COLUMNS, {}, numbers(1), keep=keep)


def test_cells_come_in_the_order_in_which_they_were_finished(tmp_path):
    run = Run(tmp_path)
    names = ["c", "a", "d", "b"]
    for name in names:
        add_cell(run, name)
    (tmp_path / "cells" / "unfinished").mkdir()
    (tmp_path / "cells" / ".hidden").mkdir()
    assert [cell.manifest["identity"]["experiment"] for cell in run.cells()] == names


def test_a_cell_is_read_again_only_if_it_was_replaced(tmp_path):
    run = Run(tmp_path)
    add_cell(run, "other")
    write_version(run, 1)
    before = {cell.manifest["key"]: cell for cell in run.cells()}
    stamps = run.manifest_stamps()
    write_version(run, 2)
    after = {cell.manifest["key"]: cell for cell in run.cells()}
    assert [key for key in before if after[key] is not before[key]] == [KEY]
    assert [key for key, stamp in run.manifest_stamps().items() if stamp != stamps[key]] == [KEY]
    assert after[KEY].manifest["spec"] == {"version": 2}


def test_a_cell_that_kept_less_than_is_asked_does_not_count(tmp_path):
    run = Run(tmp_path)
    key = add_cell(run, "a", keep="sums").manifest["key"]
    assert [run.cell(key, keep) is not None for keep in ("rows", "sums", "all")] == [True, True, False]
    (tmp_path / "cells" / key / MANIFEST).unlink()
    assert run.cell(key) is None


def test_a_saved_state_ends_with_its_cell(tmp_path):
    run = Run(tmp_path)
    arrays = {"x/sums": np.arange(3.0)}
    run.save_partial(KEY, {"items": 7, "tokens": 90}, arrays.items)
    cursor, saved = run.load_partial(KEY)
    assert cursor == {"items": 7, "tokens": 90}
    assert {name: array.tolist() for name, array in saved.items()} == {"x/sums": [0.0, 1.0, 2.0]}
    write_version(run, 1)
    assert run.load_partial(KEY) is None
    assert os.listdir(tmp_path / "partial") == []


@pytest.mark.parametrize(
    ("make", "message"),
    [(lambda path: None, "There is no run at"), (Path.touch, "is a file; a run is a folder"), (Path.mkdir, "holds no finished cell")],
)
def test_a_folder_that_is_no_run_says_what_it_is(tmp_path, make, message):
    make(tmp_path / "run")
    with pytest.raises(IsoscopeError, match=message):
        Run.existing(tmp_path / "run")
