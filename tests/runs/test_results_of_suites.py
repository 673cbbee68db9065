"""What a run holds of a suite, read back: names of derived numbers, and the statistics of one checkpoint."""

import numpy as np
import pytest

import isoscope
from isoscope.core.errors import IsoscopeError
from isoscope.estimation.site_clouds import Clouds


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    options = {"seeds": "1", "max_items": 3, "layers": "0,1", "sample": 64, "threads": 1, "quiet": True}
    return isoscope.sweep("embedded:decoder", "embedded", tmp_path_factory.mktemp("run") / "run", **options)


def test_derived_numbers_are_found_by_name_beside_metrics(results):
    table = results.table(["alignment", "mean_norm"])
    assert set(table["metric"]) == {"alignment", "mean_norm"}
    assert sorted(set(table.query("metric == 'mean_norm'")["step"])) == [0, 800]
    assert set(results.series("mean_in_union")["kind"]) == {"query", "key"}
    with pytest.raises(IsoscopeError, match="no metric called"):
        results.table("alignement")
    with pytest.raises(IsoscopeError, match="no series called"):
        results.series("mean_in_onion")


def test_the_statistics_of_one_checkpoint(results):
    norms = []
    for step in (0, 800):
        sites = results.statistics("decoder", step=step)
        site = next(site for site in sites if site.kind == "hidden" and site.layer == 1)
        norms += [float(isoscope.metrics.mean_norm(cloud)) for _, cloud in Clouds(sites).of(site, "all")]
    stored = results.table("mean_norm", policy="all").query("kind == 'hidden' and layer == 1").sort_values("step")["value"]
    np.testing.assert_allclose(norms, stored)
    with pytest.raises(IsoscopeError, match="name the step and the seed of one"):
        results.statistics("decoder")
    with pytest.raises(IsoscopeError, match="does not hold step 7 and model decoder"):
        results.statistics("decoder", step=7)
