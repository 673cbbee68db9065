"""Spectra: shares of variance, the ranks that are drawn, and the isotropic reference."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from isoscope.charts.records import label_lines
from isoscope.figures import figures
from isoscope.figures.spectrum import isotropic_references, isotropic_shares, pick_ranks
from tests.figures.made_table import SIX
from tests.figures.specs import list_rows


def test_spectrum_is_divided_by_its_sum(tables):
    table, series = tables
    spec = figures["spectrum"].draw(table, series).to_dict()
    panel = next(panel for panel in spec["concat"] if panel["title"] == SIX)
    rows = spec["datasets"][panel["layer"][0]["data"]["name"]]
    top = table[(table["model"] == SIX) & (table["metric"] == "top_share") & (table["policy"] == "all") & (table["kind"] == "hidden")]
    for layer, value in zip(top["layer"], top["value"], strict=True):
        first = next(r for r in rows if r["kind"] == "hidden" and r["layer"] == layer and r["policy"] == "all" and r["x"] == 1)
        assert first["share"] == pytest.approx(value, rel=1e-4)


def test_spectrum_without_top_share_sums_the_curve(tables):
    table, series = tables
    flat = pd.concat([series.head(1).assign(name="spectrum", kind="hidden", layer=0, x=float(k), y=2.0) for k in (1, 4, 16)])
    spec = figures["spectrum"].draw(table[table["metric"] != "top_share"], flat).to_dict()
    assert [row["share"] for row in list_rows(spec) if "y" in row] == [1 / 16] * 3


def test_picked_ranks_include_the_first_ten_and_the_last():
    kept = pick_ranks(120)
    assert kept[:10] == list(range(10))
    assert kept[-1] == 119
    assert len(kept) <= 42
    assert pick_ranks(5) == [0, 1, 2, 3, 4]


def test_isotropic_spectrum_agrees_with_a_simulation():
    n, d = 600, 60
    points = np.random.default_rng(0).normal(size=(n, d))
    values = np.linalg.eigvalsh(points.T @ points)[::-1]
    np.testing.assert_allclose(isotropic_shares(n, d), values / values.sum(), rtol=0.1)


def test_rows_of_no_point_have_no_isotropic_reference(tables):
    """The cosine of zero vectors alone is a row with n = 0."""
    table, _ = tables
    line = label_lines(table)[0]
    name = line["line"].iloc[0]
    assert isotropic_references(name, line)
    assert isotropic_references(name, line.assign(n=0)) == []
