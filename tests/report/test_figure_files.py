"""Figures as files."""

from __future__ import annotations

import pytest

from isoscope.charts import print_chart
from isoscope.core.errors import IsoscopeError
from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, make_table
from isoscope.report import draw_figure, write_figures
from isoscope.runs.run import Run
from isoscope.runs.stored_cell import manifest_of
from tests.figures.made_table import SIX, made_table
from tests.runs.packing import write_made_cell

STARTS = {"svg": b"<svg", "pdf": b"%PDF", "png": b"\x89PNG"}


def test_each_format_is_what_it_says(tables, tmp_path):
    table, series = tables
    own = table[(table["model"] == SIX) & table["metric"].isin(["mean_cosine", "drift_ratio"])]
    written = write_figures(own, series.iloc[:0], tmp_path / "figures")
    names = {path.name for path in written}
    drawn = {"layer_profile", "drift_and_cosine", "policy_difference", "token_models", "drift_spearman", "drift_pearson", "isotropic_level"}
    assert {f"{name}.{ending}" for name in drawn for ending in STARTS} == names
    for path in written:
        assert path.read_bytes().startswith(STARTS[path.suffix[1:]])
    profile = (tmp_path / "figures" / "layer_profile.svg").read_text()
    assert "mean_cosine" in profile
    assert "drift_ratio" in profile
    assert ">tokens: all<" in profile
    assert ">tokens: all<" not in (tmp_path / "figures" / "policy_difference.svg").read_text()


def test_unknown_format_is_refused(tables, tmp_path):
    with pytest.raises(IsoscopeError, match="svg, pdf and png, not as gif"):
        write_figures(*tables, tmp_path, ["gif"])


@pytest.mark.parametrize("name", ["a\x1b[31mb", "a\0", "\ufffe", "\uffff", "\ud800", "x" * 5000])
def test_names_that_svg_cannot_hold_are_written_out(tables, tmp_path, name):
    """They would end the process."""
    table, series = (frame.assign(model=frame["model"].astype(object).replace(SIX, name)) for frame in tables)
    written = write_figures(table, series, tmp_path, names=["layer_profile"])
    assert [path.read_bytes().startswith(STARTS[path.suffix[1:]]) for path in written] == [True] * 3


def test_without_addresses_to_reserve_nothing_is_drawn(tables, tmp_path, monkeypatch):
    """What draws would end the process."""
    monkeypatch.setattr(print_chart, "addresses_left", lambda: 3 << 30)
    print_chart.load_converter.cache_clear()
    with pytest.raises(
        IsoscopeError, match=r"Drawing reserves 66 GB of address space, but this process has only 3 GB left; raise or remove `ulimit -v`"
    ):
        write_figures(*tables, tmp_path, ["svg"], ["layer_profile"])
    monkeypatch.undo()
    assert write_figures(*tables, tmp_path, ["svg"], ["layer_profile"])


def test_nothing_to_draw_writes_nothing(tmp_path):
    assert write_figures(make_table([], TABLE_COLUMNS), make_table([], SERIES_COLUMNS), tmp_path) == []


def test_the_lines_of_python_on_the_page_draw_the_chart(tmp_path):
    table, series = made_table(twin=False)
    own = table["model"].eq(SIX) & table["metric"].isin(["between_cosine", "drift_ratio"])
    run = Run(tmp_path / "run")
    manifest = manifest_of({"experiment": "made", "model": SIX}, {"model": SIX}, {}, "rows")
    write_made_cell(run, "cell", manifest, table[own], series.iloc[:0], None)
    spec = draw_figure(run.path, "layer_profile", metric="drift_ratio").to_dict()
    (rows,) = spec["datasets"].values()
    assert spec["title"] == "drift_ratio"
    truth = table[own & table["metric"].eq("drift_ratio") & table["layer"].notna()]
    assert sorted(row["value"] for row in rows) == sorted(truth["value"])
    assert draw_figure(run.path, "spectrum") is None
