"""Charts as files: each format is what it says, nothing is read from elsewhere, and no name ends the process."""

import re
import struct

import altair
import pandas as pd
import pytest
import vl_convert

from isoscope.charts import print_chart
from isoscope.charts.print_chart import LONGEST_NAME, escape_names, load_converter, render_chart, shorten_name, vega_lite_version
from isoscope.core.errors import IsoscopeError

SPEC = {
    "data": {"values": [{"x": 1, "y": "first"}, {"x": 2, "y": "second"}]},
    "mark": "bar",
    "encoding": {"x": {"field": "x", "type": "quantitative"}, "y": {"field": "y", "type": "nominal"}},
    "width": 200,
    "height": 100,
    "padding": 0,
}


def pixels(png):
    """Width and height, from the header of a PNG."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    return struct.unpack(">II", png[16:24])


def test_a_chart_in_every_format_and_resolution():
    svg = render_chart(SPEC, "svg").decode()
    width, height = (float(re.search(rf'<svg[^>]* {name}="([\d.]+)"', svg)[1]) for name in ("width", "height"))
    assert ">second</text>" in svg
    assert pixels(render_chart(SPEC, "png")) == pytest.approx((2 * width, 2 * height), abs=2)
    assert pixels(render_chart(SPEC, "png", ppi=288)) == pytest.approx((4 * width, 4 * height), abs=4)  # 72 pixels per inch is a scale of 1
    assert render_chart(SPEC, "pdf").startswith(b"%PDF")


def test_data_of_files_and_urls_are_not_read(tmp_path):
    path = tmp_path / "rows.json"
    path.write_text('[{"x": 1, "y": "secret"}]')
    for url in (str(path), "https://localhost/rows.json"):
        with pytest.raises(ValueError, match="External data url not allowed"):
            render_chart(SPEC | {"data": {"url": url}}, "svg")
    assert b"secret" not in render_chart(SPEC | {"data": {"url": path.as_uri()}}, "svg"), "such data are taken as empty"


def test_the_version_of_vega_lite_is_the_newest_that_both_know():
    def number(text):
        return [int(part) for part in re.findall(r"\d+", text)[:2]]

    known = [number(name) for name in vl_convert.get_vegalite_versions()]
    assert number(vega_lite_version()) == max(version for version in known if version <= number(altair.SCHEMA_VERSION))


def test_without_addresses_to_reserve_nothing_is_drawn(monkeypatch):
    monkeypatch.setattr(print_chart, "addresses_left", lambda: 3 << 30)
    load_converter.cache_clear()
    with pytest.raises(
        IsoscopeError, match=r"reserves 66 GB of address space, but this process has only 3 GB left; raise or remove `ulimit"
    ):
        render_chart(SPEC, "svg")
    monkeypatch.undo()
    assert render_chart(SPEC, "svg").startswith(b"<svg")


def test_long_names_are_shortened_and_stay_apart():
    """vl-convert takes seconds over a label of thousands of characters. Settings are no label: figures read them."""
    names = ["x" * 5000, "x" * 2000 + "y" + "x" * 2999, "a\0b"]
    table = pd.DataFrame({"model": names, "spec": "z" * 900, "layer": [0, 1, 2]})
    drawn = escape_names(table)
    assert drawn["model"].str.len().tolist() == [131, 131, 6]
    assert drawn["model"].nunique() == 3
    assert drawn[["spec", "layer"]].equals(table[["spec", "layer"]])
    assert shorten_name("x" * LONGEST_NAME) == "x" * LONGEST_NAME
    assert shorten_name("a" * 80 + "b" * 81 + "c" * 40).startswith("a" * 80 + "…")
