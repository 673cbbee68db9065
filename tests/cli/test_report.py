"""isoscope report writes one page, with what was asked for."""

import base64
import gzip
import io
import re

import pandas as pd

from tests.cli.calling import isoscope, read_strict_json
from tests.report.test_page import table_of


def test_the_report(good_run, tmp_path):
    page = tmp_path / "new" / "page.html"
    answer = isoscope("report", good_run, "--out", page, "--title", "A & [b]", "--json").worked()
    assert read_strict_json(answer.out) == {"page": str(page), "figures": []}
    text = page.read_text("utf-8")
    assert "<title>A &amp; [b]</title>" in text
    assert all(name in text for name in ("small-bert", "small-gpt2"))


SITE = ["model", "stack", "kind", "layer", "policy"]


def of_page(path, name):
    """A table that a page carries."""
    packed = re.search(rf'id="packed-{name}"[^>]*>([^<]*)<', path.read_text("utf-8"))[1]
    return pd.read_csv(io.StringIO(table_of(gzip.decompress(base64.b64decode(packed)).decode()).to_csv(index=False)))


def csv(*words):
    return pd.read_csv(io.StringIO(isoscope("table", *words).worked().out))


def test_a_report_has_also_what_is_asked_for(good_run, tmp_path):
    more = tmp_path / "more.html"
    isoscope("report", good_run, "--out", more, "--metric", "two_nn_mle", "--metric", "gride_scales").worked()
    table, series = of_page(more, "table"), of_page(more, "series")
    asked = table[table["metric"] == "two_nn_mle"]
    shown = csv(good_run, "--metric", "two_nn_mle", "--policy", "every")
    numbers = [name for name in asked if name != "spec"]  # a table names its cell in place of all settings
    pd.testing.assert_frame_equal(asked[numbers].reset_index(drop=True), shown[numbers])
    assert set(asked["model"]) == {"small-bert", "small-gpt2"}
    rest = csv(good_run, "--policy", "every").sort_values(["model", "metric"], kind="stable", ignore_index=True)  # as the page has it
    pd.testing.assert_frame_equal(table.drop(asked.index)[numbers].reset_index(drop=True), rest[numbers])
    drawn = series[series["name"] == "gride_scales"]
    assert len(drawn) > 0
    pd.testing.assert_frame_equal(series.drop(drawn.index).reset_index(drop=True), csv(good_run, "--series"), rtol=5e-9, atol=0.0)
    assert not table.duplicated([*SITE, "metric"]).any()
    assert not series.duplicated([*SITE, "name", "x"]).any()


def test_a_report_refuses_what_there_is_not(good_run, tmp_path):
    isoscope("report", good_run, "--out", tmp_path / "page.html", "--metric", "gride_scale").refused("gride_scale")
    assert not (tmp_path / "page.html").exists()
    isoscope("report", good_run, "--out", tmp_path / "page.html", "--width", "86mm").refused("it needs --only layer_profile --metric NAME")
    assert not (tmp_path / "page.html").exists()
