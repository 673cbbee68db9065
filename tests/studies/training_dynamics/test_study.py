"""What a sweep adds to its run: the dynamics of every training in it, and nothing where there is none."""

import pytest

from isoscope.core.study import studies
from isoscope.runs.results import Results
from isoscope.runs.run import Run
from isoscope.studies.training_dynamics.analysis import derived_cells
from tests.studies.training_dynamics.made_training import write_training

STUDY = studies["training_dynamics"]


def test_the_derived_change_is_the_last_step_minus_the_first(tmp_path):
    run = write_training(tmp_path / "run")
    table = Results(run).table("between_cosine", "all").set_index(["step", "layer"])["value"]
    STUDY.derive(run)
    (cell,) = derived_cells(Results(run))
    rows = cell.rows()
    changes = rows[rows["metric"].eq("between_cosine_change")].set_index("layer")["value"]
    for layer in range(3):
        assert changes[layer] == pytest.approx(table[100, layer] - table[0, layer], rel=1e-9)
    assert changes[0] == pytest.approx(0, abs=1e-12)
    assert changes[2] > changes[1] > 0.1
    before = {path: path.stat().st_mtime_ns for path in cell.folder.iterdir()}
    STUDY.derive(run)
    (again,) = derived_cells(Results(run))
    assert {path: path.stat().st_mtime_ns for path in again.folder.iterdir()} == before


def test_a_single_step_is_no_training_and_no_error(tmp_path):
    run = write_training(tmp_path / "run", steps=(100,))
    STUDY.derive(run)
    assert len(Run(run).cells()) == 1
    assert derived_cells(Results(run)) == []


def test_names_of_other_studies_have_no_meaning_here():
    assert STUDY.meaning("norm_fixed_point") is None
    assert STUDY.meaning("precedence").startswith("The part of heads")
