"""The isotropic level against dimension."""

from __future__ import annotations

import numpy as np
import pytest

from isoscope.estimation.isotropic_quantiles import one_pair
from isoscope.report.charts import find_legend
from tests.figures.made_table import ZOO
from tests.figures.specs import rows_of


def test_isotropic_level_has_one_point_per_model_and_dimension(zoo, zoo_spec):
    rows = rows_of(zoo_spec("isotropic_level"))
    points = rows[rows["curve"].notna() & (rows["policy"] == "all")]
    tones = {name: tone for name, tone, _ in find_legend(zoo_spec("isotropic_level"))}
    marks = {(row["group"], tones[row["curve"]]) for _, row in points.iterrows()}
    assert len(marks) == len(ZOO), "shape and colour together name a model"
    assert len(points) == sum(len(dims) for *_, dims in ZOO.values())
    own = zoo[(zoo["model"] == "t5-base") & (zoo["metric"] == "mean_cosine") & (zoo["kind"] == "hidden") & (zoo["policy"] == "all")]
    assert points.loc[points["curve"] == "t5-base", "value"].item() == pytest.approx(own["value"].mean(), rel=1e-4)
    level = rows[rows["curve"].isna() & rows["d"].notna()]
    np.testing.assert_allclose(level["value"], [one_pair(int(d)) for d in level["d"]])
