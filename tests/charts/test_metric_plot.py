"""One metric at the size of a figure in a paper."""

import re
import struct

import numpy as np
import pandas as pd
import pytest

from isoscope.charts.metric_plot import parse_length, plot_metric
from isoscope.core.errors import IsoscopeError
from tests.measuring.made_runs import corpus, moved, write


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    x, mask = corpus(np.random.default_rng(0), 40)
    return write(tmp_path_factory.mktemp("made") / "run", [moved(x, 0.2), moved(x, 0.6)], mask, final=moved(x, 3.0))


def lengths(svg):
    """Width and height in inches, and those of the drawing in points."""
    width, height, *box = re.search(r'width="([\d.]+)in" height="([\d.]+)in" viewBox="0 0 ([\d.]+) ([\d.]+)"', svg).groups()
    return float(width), float(height), *map(float, box)


@pytest.mark.parametrize(("width", "inches"), [("3.25in", 3.25), ("86mm", 86 / 25.4), ("17cm", 17 / 2.54), (5, 5.0)])
def test_the_width_is_that_of_the_whole_figure_in_every_format(run, tmp_path, width, inches):
    plot = run.plot("mean_cosine", width=width)
    wide, high, points, tall = lengths(plot.svg)
    assert wide == pytest.approx(inches, rel=1e-4)
    assert points == pytest.approx(72 * inches, abs=2)  # so that type of 7 points is printed as such
    assert high / wide == pytest.approx(tall / points, rel=1e-3)
    box = re.search(rb"MediaBox ?\[0 0 ([\d.]+) ", plot.save(tmp_path / "a.pdf").read_bytes())
    assert float(box[1]) == pytest.approx(72 * inches, abs=2)
    png = plot.save(tmp_path / "deep" / "a.png").read_bytes()
    assert struct.unpack(">I", png[16:20])[0] == pytest.approx(300 * inches, abs=9)
    assert plot.save(tmp_path / "a.svg").read_text() == plot.svg


def test_it_holds_the_values_the_intervals_and_the_null(run):
    plot = run.plot("mean_cosine", policy="body")
    values = plot.spec["datasets"][plot.spec["data"]["name"]] if "name" in plot.spec["data"] else plot.spec["data"]["values"]
    expected = run.table("mean_cosine", "body")
    expected = expected[expected["kind"].isin(["hidden", "final"])]
    drawn = {(row["kind"], row["layer"]): (row["value"], row["low"], row["high"], row["null"]) for row in values}
    assert len(drawn) == len(expected) == 3
    for row in expected.to_dict("records"):
        assert drawn[row["kind"], row["layer"]] == pytest.approx((row["value"], row["low"], row["high"], row["null"]))
    assert "Mean cosine" in plot.svg  # the metric's title stands at the axis


def test_a_metric_divided_by_the_dimension_is_drawn_as_on_the_page(run):
    plot = run.plot("effective_rank/d")
    (rows,) = plot.spec["datasets"].values()
    expected = run.table("effective_rank").set_index(["kind", "layer"])
    assert len(rows) == 3
    for row in rows:
        own = expected.loc[(row["kind"], row["layer"])]
        for name in ("value", "low", "high", "null"):
            assert row[name] == pytest.approx(own[name] / own["d"], nan_ok=True)
    assert "Effective rank / d" in plot.svg
    with pytest.raises(IsoscopeError, match=r"A metric may be divided by its dimension, as effective_rank/d; got 'effective_rank/n'"):
        run.plot("effective_rank/n")


def test_pooled_vectors_are_a_line_of_their_own_as_on_the_page(run):
    table = run.table("drift_norm", "all")
    layer = table[table["kind"].eq("hidden")].tail(1)
    plot = plot_metric(pd.concat([table, layer.assign(kind="pooled", value=7.0)]), "drift_norm", label="Drift")
    rows = [row for rows in plot.spec["datasets"].values() for row in rows]
    assert [(row["line"], row["value"]) for row in rows if row["kind"] == "pooled"] == [(f"{layer['model'].item()}, pooled", 7.0)]
    assert len({row["line"] for row in rows}) == 2


def test_what_cannot_be_drawn_is_a_user_error(run, tmp_path):
    with pytest.raises(IsoscopeError, match="did you mean mean_cosine"):
        run.plot("mean_cosin")
    with pytest.raises(IsoscopeError, match=r"\.svg, \.pdf or \.png; a\.jpg"):
        run.plot("mean_cosine", tmp_path / "a.jpg")
    for width in ("wide", "-3in", "0.2in", "9m", "90in"):
        with pytest.raises(IsoscopeError, match="from 1 to 40 inches"):
            parse_length(width)


def test_the_command_draws_the_same(run, tmp_path):
    from tests.cli.calling import isoscope

    words = ("--only", "layer_profile", "--metric", "mean_cosine", "--width", "86mm", "--figures", tmp_path)
    answer = isoscope("report", run.path, *words).worked()
    assert answer.out.splitlines() == [str(tmp_path / f"mean_cosine.{form}") for form in ("svg", "pdf", "png")]
    assert (tmp_path / "mean_cosine.svg").read_text() == run.plot("mean_cosine", width="86mm").svg
