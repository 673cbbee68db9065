"""Numbers and curves that are computed only where they are named, from what a run kept."""

import base64
import gzip
import io
import re

import numpy as np
import pandas as pd
import pytest

from isoscope.estimation.cloud import Cloud
from isoscope.metrics import gride
from isoscope.runs.results import Results
from tests.cli.calling import isoscope

SITE = ["model", "stack", "kind", "layer", "policy"]


def of_page(path, name):
    """A table that a page carries."""
    packed = re.search(rf'id="packed-{name}"[^>]*>([^<]*)<', path.read_text("utf-8"))[1]
    return pd.read_csv(io.StringIO(gzip.decompress(base64.b64decode(packed)).decode()))


def csv(*words):
    return pd.read_csv(io.StringIO(isoscope("table", *words).worked().out))


def test_a_report_has_also_what_is_asked_for(good_run, tmp_path):
    more = tmp_path / "more.html"
    isoscope("report", good_run, "--out", more, "--metric", "two_nn_mle", "--metric", "gride_scales").worked()
    table, series = of_page(more, "table"), of_page(more, "series")
    asked = table[table["metric"] == "two_nn_mle"]
    pd.testing.assert_frame_equal(asked.reset_index(drop=True), csv(good_run, "--metric", "two_nn_mle", "--policy", "every"))
    assert set(asked["model"]) == {"small-bert", "small-gpt2"}
    rest = csv(good_run, "--policy", "every").sort_values(["model", "metric"], kind="stable", ignore_index=True)  # as the page has it
    pd.testing.assert_frame_equal(table.drop(asked.index).reset_index(drop=True), rest)
    drawn = series[series["name"] == "gride_scales"]
    assert len(drawn) > 0
    pd.testing.assert_frame_equal(series.drop(drawn.index).reset_index(drop=True), csv(good_run, "--series"), rtol=5e-9, atol=0.0)
    assert not table.duplicated([*SITE, "metric"]).any()
    assert not series.duplicated([*SITE, "name", "x"]).any()


def test_a_report_refuses_what_there_is_not(good_run, tmp_path):
    isoscope("report", good_run, "--out", tmp_path / "page.html", "--metric", "gride_scale").refused("gride_scale")
    assert not (tmp_path / "page.html").exists()


def test_a_series_on_request(good_run):
    found = csv(good_run, "--series", "--metric", "gride_scales")
    assert set(found["name"]) == {"gride_scales"}
    own = found.query("model == 'small-gpt2' and kind == 'hidden' and layer == 1 and policy == 'all'").sort_values("x")
    assert own["x"].tolist() == [1, 2, 4, 8, 16, 32, 64]
    assert (np.diff(own["weight"]) > 0).all()
    kept = Results(good_run).statistics("small-gpt2")
    statistics = next(statistics for site, statistics in kept.items() if (site.kind, site.layer) == ("hidden", 1))
    cloud = Cloud.of(statistics, "all")
    assert own.loc[own["x"] == 8, "y"].item() == pytest.approx(float(gride(cloud)), rel=1e-12)


def test_several_series_one_of_them_stored(good_run):
    found = csv(good_run, "--series", "--metric", "gride_scales", "--metric", "spectrum")
    stored = csv(good_run, "--series")
    assert set(found["name"]) == {"gride_scales", "spectrum"}
    assert (found["name"] == "spectrum").sum() == (stored["name"] == "spectrum").sum() > 0
    assert "gride_scales" not in set(stored["name"])
