"""What `isoscope reproduce` runs of the isotropic null: the closed forms of every dimension, once."""

import numpy as np
import pytest

from isoscope.core.progress import Progress
from isoscope.core.study import studies
from isoscope.runs.run import Run
from isoscope.studies.isotropic_null.experiment import DIMENSIONS, closed_forms, pair_density

STUDY = studies["isotropic_null"]


def test_a_cell_holds_the_closed_forms_and_is_written_once(tmp_path):
    STUDY.experiment(tmp_path, {}, Progress(quiet=True))
    (cell,) = Run(tmp_path).cells()
    rows, series = cell.rows(), cell.series()
    assert sorted(rows["d"].unique()) == sorted(series["weight"].unique()) == [*DIMENSIONS]
    for d in DIMENSIONS:
        own = series[series["weight"].eq(d)]
        np.testing.assert_allclose(own["y"], pair_density(own["x"].to_numpy(float), d), rtol=1e-9)
        assert set(rows.loc[rows["d"].eq(d), "n"]) == {4096}
    values = rows[rows["d"].eq(768)].set_index("metric")["value"]
    assert values.to_dict() == {name: pytest.approx(closed_forms(768, 4096)[name]) for name in values.index}
    assert round(values["pair_95"], 4) == 0.0594  # as published
    before = {path: path.stat().st_mtime_ns for path in cell.folder.iterdir()}
    STUDY.experiment(tmp_path, {"draws": 3}, Progress(quiet=True))
    (again,) = Run(tmp_path).cells()
    assert {path: path.stat().st_mtime_ns for path in again.folder.iterdir()} == before
