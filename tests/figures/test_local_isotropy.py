"""Local isotropy: neighbourhoods, the whole cloud, and the Gaussian control."""

from __future__ import annotations

import numpy as np
import pandas as pd

from isoscope.figures import figures
from isoscope.figures.local_isotropy import CONTROL, LOCAL, WHOLE
from tests.figures.made_shape import MODELS


def test_local_share_is_drawn_with_the_global_share_and_its_control(shape_tables):
    table, series = shape_tables
    spec = figures["local_isotropy"].draw(table, series).to_dict()
    assert [panel["title"] for panel in spec["concat"]] == [title for model in MODELS for title in (model, f"{model}: excess")]
    shown = pd.DataFrame(spec["datasets"][spec["concat"][0]["data"]["name"]])
    own = table[table["model"].eq("org/decoder") & table["kind"].eq("hidden") & table["layer"].notna()]
    for cloud, metric, column in ((WHOLE, "top_share", "value"), (LOCAL, "local_share", "value"), (CONTROL, "local_share", "null")):
        truth = own.loc[own["metric"] == metric, column].to_numpy(float)
        np.testing.assert_allclose(np.sort(shown.loc[shown["cloud"] == cloud, "value"]), np.sort(truth), rtol=1e-4)
    without = figures["local_isotropy"].draw(table[table["metric"] != "local_share_excess"], series).to_dict()
    assert [panel["title"] for panel in without["concat"]] == list(MODELS)
