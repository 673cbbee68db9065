"""The page: its numbers are the table's, nothing in it can break out, and it loads nothing."""

from __future__ import annotations

import base64
import gzip
import html
import json
import re
from html.parser import HTMLParser

import pandas as pd
import pytest

from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, make_table
from isoscope.core.wording import format_number
from isoscope.report import write_report
from isoscope.report.line import all_lines
from isoscope.report.overview import overview
from isoscope.report.page import render_page
from isoscope.report.summary import summarise
from tests.figures.made_table import SIX, THIRTY
from tests.report.made_page import assert_carried


class Reader(HTMLParser):
    """The scripts, attributes and visible text of a page, as a browser would find them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.scripts: list[tuple[dict, str]] = []
        self.tags: list[tuple[str, dict]] = []
        self.text = ""
        self.inside = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.inside = tag
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_endtag(self, tag):
        self.inside = ""

    def handle_data(self, data):
        if self.inside == "script":
            self.scripts[-1] = (self.scripts[-1][0], self.scripts[-1][1] + data)
        elif self.inside != "style":
            self.text += data

    def script(self, name: str) -> str:
        return next(text for attributes, text in self.scripts if attributes.get("id") == name)


@pytest.fixture(scope="module")
def reader(page_text) -> Reader:
    return Reader(page_text)


def unpacked(reader: Reader, name: str) -> str:
    return gzip.decompress(base64.b64decode(reader.script(f"packed-{name}"))).decode()


def table_of(packed: str) -> pd.DataFrame:
    """A table as a page carries it: by column, with texts as numbers into a list of words."""
    columns = json.loads(packed)
    for name, data in columns.items():
        if isinstance(data, dict):
            columns[name] = [data["words"][code] if code >= 0 else None for code in data["codes"]]
    return pd.DataFrame(columns)


def charts_of(reader: Reader) -> list[dict]:
    """The panels of a page with their data as rows, as its script puts them together."""
    packed = json.loads(unpacked(reader, "charts"))
    rows = {
        name: [dict(zip(data, row, strict=True)) for row in zip(*data.values(), strict=True)] for name, data in packed["datasets"].items()
    }
    return [panel | {"datasets": {name: rows[name] for name in panel["datasets"]}} for panel in packed["panels"]]


@pytest.mark.parametrize("name", ["table", "series"])
def test_the_tables_are_on_the_page_to_the_last_digit_and_curves_to_nine(reader, tables, name):
    assert_carried(table_of(unpacked(reader, name)).to_csv(index=False), *tables, name)


def test_charts_hold_the_numbers_of_the_table_to_four_digits(reader, tables):
    charts = charts_of(reader)
    chart = next(chart for chart in charts if chart.get("title") == "effective_rank")
    (rows,) = chart["datasets"].values()
    table = tables[0]
    own = table[(table["metric"] == "effective_rank") & table["layer"].notna()]
    assert sorted(row["value"] for row in rows) == [float(f"{x:.4g}") for x in sorted(own["value"])]
    assert sorted(row["low"] for row in rows) == [float(f"{x:.4g}") for x in sorted(own["low"])]
    assert chart["width"] == "container"
    assert chart["params"] == [{"name": "policy", "value": "all"}]


def test_every_panel_has_its_chart(reader):
    charts = charts_of(reader)
    placed = [int(attributes["data-chart"]) for _, attributes in reader.tags if "data-chart" in attributes]
    assert placed == list(range(len(charts)))
    assert not any("$schema" in chart for chart in charts)


def test_overview_and_summary_are_on_the_page(reader, tables):
    lines = all_lines(*tables)
    columns, rows = overview(lines)
    table = tables[0]
    own = table[(table["model"] == SIX) & (table["metric"] == "between_cosine") & (table["policy"] == "all") & table["layer"].notna()]
    assert [column.title for column in columns] == ["Cosine", "Drift ratio", "Top share", "Effective rank"]
    assert rows[0].cells[0].text == format_number(own["value"].max())
    assert rows[0].cells[0].below.startswith("layer 6: ")
    assert rows[0].about == "7 layers, d = 256, n = 20,000"
    words = " ".join(reader.text.split())
    assert all(cell.text in words for row in rows for cell in row.cells)
    assert f"org/decoder-six anisotropic in 6 of 8 layers The mean cosine reaches {format_number(own['value'].max())} in layer 6" in words
    for line in lines:
        assert all(sentence in words for sentence in summarise(line, lines).values())


def test_each_figure_has_its_data_its_command_and_its_number_in_a_paper(reader):
    charts = charts_of(reader)
    buttons = [attributes for tag, attributes in reader.tags if tag == "button" and "data-rows" in attributes]
    covered = [int(number) for button in buttons for number in button["data-rows"].split()]
    assert sorted(covered) == list(range(2, len(charts))), "the two of the first screen are in other figures, too"
    for button in buttons:
        assert f"isoscope report RUN --only {button['data-name']} --figures FOLDER" in reader.text
    assert "Figure 1 of Godey, de la Clergerie and Sagot (EACL 2024)." in reader.text


def test_a_figure_of_many_panels_shows_the_first_and_lets_one_choose(reader):
    charts = charts_of(reader)
    profile = next(button for tag, button in reader.tags if button.get("data-name") == "layer_profile" and tag == "button")
    own = [charts[int(number)]["title"] for number in profile["data-rows"].split()]
    assert len(own) > 12
    assert f"the first of each figure all of them {' '.join(own)}" in " ".join(reader.text.split())
    hidden = [attributes for tag, attributes in reader.tags if attributes.get("class") == "panel" and "hidden" in attributes]
    assert len(hidden) == len(own) - 6 + 1, "and the large one of the chosen metric"


def test_every_metric_and_setting_is_explained(reader, tables):
    for name in {*tables[0]["metric"], *tables[1]["name"]}:
        assert f"{name}" in reader.text
    assert "f00d" in reader.text
    assert "Not installed here." not in reader.text


@pytest.mark.parametrize(("paper", "is_open"), [("", False), ("godey2024", True)])
def test_claims_of_papers_are_folded_unless_the_run_reproduces_one(tables, paper, is_open):
    found = Reader(render_page(*tables, [], paper=paper))
    folded = next(attributes for tag, attributes in found.tags if tag == "details" and attributes.get("data-key") == "papers")
    assert ("open" in folded) is is_open
    words = " ".join(found.text.split())
    assert words.count("need at least 3 models") == 0


def test_a_run_of_one_model_says_once_that_claims_need_more(tables):
    own = [frame[frame["model"].eq(SIX)] for frame in tables]
    found = Reader(render_page(*own, []))
    words = " ".join(found.text.split())
    assert words.count("claims about kinds of models need at least 3 models; this run has 1.") == 1
    assert "outcome undecided" not in [attributes.get("class") for _, attributes in found.tags]
    assert "tone" not in [attributes.get("class") for _, attributes in found.tags], "one model needs no colour"


def test_each_verdict_has_the_colour_of_its_line(reader):
    """On a narrow screen the list of models is folded, and the verdicts are the legend of the large charts."""
    tones = [attributes["style"] for tag, attributes in reader.tags if tag == "i" and attributes.get("class") == "tone"]
    listed = [attributes["style"] for tag, attributes in reader.tags if tag == "i" and "class" not in attributes]
    assert len(tones) > 1
    assert tones == [style for style in listed if style in tones]


def test_page_is_small(page_text):
    assert len(page_text.encode()) < 1_500_000


def test_nothing_is_loaded(page_text, reader, hostile_text):
    for found in (reader, Reader(hostile_text)):
        loads = [
            (tag, key, value)
            for tag, attributes in found.tags
            for key, value in attributes.items()
            if key in ("src", "srcset", "data", "action")
        ]
        loads += [
            (tag, "href", attributes["href"])
            for tag, attributes in found.tags
            if "href" in attributes and not attributes["href"].startswith("#")
        ]
        assert loads == []
    policy = next(attributes["content"] for _, attributes in reader.tags if attributes.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'")
    assert "http" not in policy
    style = re.search(r"<style>(.*?)</style>", page_text, re.S)
    assert style is not None
    assert not re.search(r"url\(|@import", style[1])


def test_hostile_names_stay_text(page_text, hostile_text):
    plain, hostile = Reader(page_text), Reader(hostile_text)
    assert len(hostile.scripts) == len(plain.scripts) == 5
    assert not [tag for tag, _ in hostile.tags if tag == "img"]
    assert "<script>alert" not in hostile_text
    for _, attributes in hostile.tags:
        assert not any(key.startswith("on") for key in attributes)
    assert "</script><script>alert(1)</script>" in hostile.text
    assert not set("<>&\u2028") & set(hostile.script("packed-charts"))
    names = {row["line"] for chart in charts_of(hostile) for rows in chart["datasets"].values() for row in rows if "line" in row}
    assert "</script><script>alert(1)</script>" in names
    assert html.escape("</title><script>alert(4)</script>") in hostile_text


def test_report_is_written_where_asked_even_of_an_empty_table(tmp_path):
    path = write_report(make_table([], TABLE_COLUMNS), make_table([], SERIES_COLUMNS), [], tmp_path / "deep" / "report.html")
    assert "nothing was measured" in path.read_text()


def test_unknown_metric_is_shown_all_the_same(tables):
    table, series = tables
    own = table[(table["metric"] == "mean_norm") & (table["model"] == THIRTY)].assign(metric="my_metric")
    found = Reader(render_page(own, series.iloc[:0], []))
    assert [chart["title"] for chart in charts_of(found)] == ["my_metric"]
    assert not [tag for tag, attributes in found.tags if attributes.get("id") == "headline"]
    assert "Not installed here." in found.text
