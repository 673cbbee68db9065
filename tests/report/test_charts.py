"""Charts become panels of the page: their data, legends, numbers and headings."""

from __future__ import annotations

from isoscope.core.figure import Figure
from isoscope.figures import figures
from isoscope.report.charts import OTHERS, TOPICS, Drawing, drop_line_legend, find_legend, group_by_topic, place_on_page, split_panels


def drawn(name: str, panels: int = 1) -> Drawing:
    own = figures[name] if name in figures else Figure(name, name, "A caption.", lambda table, series: None)
    return Drawing(own, [{"title": f"p{i}"} for i in range(panels)])


def test_figures_are_numbered_through_and_stand_under_their_heading():
    found = place_on_page([drawn("token_models", 2), drawn("spectrum"), drawn("my_figure", 3)], first=5, prefix="x-")
    assert [(one.id, one.numbers) for one in found] == [("x-token_models", [5, 6]), ("x-spectrum", [7]), ("x-my_figure", [8, 9, 10])]
    assert [(topic, [chart.figure.name for chart in own]) for topic, own in group_by_topic(found)] == [
        ("Cosine over the layers", ["token_models"]),
        ("Spectra, norms and tokens", ["spectrum"]),
        (OTHERS, ["my_figure"]),
    ]
    topics = {figure.topic for figure in figures if not figure.over_steps}
    assert topics == set(TOPICS), "every figure of the package stands under a heading, and every heading has a figure"


def test_one_of_many_panels_can_be_chosen_by_its_title():
    few, many = place_on_page([drawn("few", 9), drawn("many", 10)])
    assert (few.choices, many.choices) == ([], [f"p{i}" for i in range(10)])


PARTS = [
    {"mark": "line", "data": {"name": "a"}, "encoding": {"color": {"field": "line", "scale": {"range": ["red"]}}}},
    {"facet": {"field": "kind"}, "spec": {"layer": [{"mark": "point", "data": {"name": "b"}}, {"mark": "rule", "data": {"name": "a"}}]}},
]


def test_each_panel_has_the_data_that_it_names_and_no_legend_of_models():
    spec = {"concat": PARTS, "datasets": {"a": [{"x": 1}], "b": [{"x": 2}], "unused": []}, "params": [{"name": "policy"}], "config": {}}
    first, second = split_panels(spec)
    assert (first["datasets"], second["datasets"]) == ({"a": [{"x": 1}]}, {"a": [{"x": 1}], "b": [{"x": 2}]})
    assert (first["width"], "width" in second) == ("container", False), "a facet has a width per part"
    assert first["encoding"]["color"] == {"field": "line", "scale": {"range": ["red"]}, "legend": None}
    assert first["params"] == second["params"] == [{"name": "policy"}]
    assert "legend" not in PARTS[0]["encoding"]["color"], "the chart itself stays as it was"


def test_a_chart_without_parts_is_one_panel():
    (panel,) = split_panels({"$schema": "url", "mark": "bar", "data": {"name": "a"}, "datasets": {"a": []}, "usermeta": {"steps": [0]}})
    assert (panel["mark"], panel["datasets"], "$schema" in panel, "usermeta" in panel) == ("bar", {"a": []}, False, False)


def test_a_legend_is_read_from_the_scales_of_tone_and_dash():
    color = {"field": "curve", "scale": {"domain": ["own", "null"], "range": ["#111", "#888"]}}
    dash = {"field": "curve", "scale": {"domain": ["own", "null"], "range": [[1, 0], [4, 2]]}}
    chart = {"datasets": {"a": [{"color": 1}]}, "layer": [{"mark": "rule"}, {"encoding": {"color": color, "strokeDash": dash}}]}
    assert find_legend(chart) == [("own", "#111", "1 0"), ("null", "#888", "4 2")]
    assert find_legend({"encoding": {"color": color | {"field": "line"}, "strokeDash": dash}}) == []


def test_fields_of_data_are_no_legend():
    data = {"values": [{"field": "line", "scale": 3}]}
    assert drop_line_legend({"data": data, "color": {"field": "curve", "scale": {}}}) == {
        "data": data,
        "color": {"field": "curve", "scale": {}, "legend": None},
    }
