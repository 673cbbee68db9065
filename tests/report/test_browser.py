"""The page in a real browser: charts are there and show the table's numbers, switches work, names stay text, nothing leaves it."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pandas as pd
import pytest

from isoscope.report.page import render_page
from isoscope.studies.training_dynamics.sentences import rows_on_page
from tests.figures.made_suite import SUITES
from tests.report.made_page import MANIFESTS, MARKUP, SCRIPT, TITLE, TRAINING, assert_carried, made_tables
from tests.report.opened import Opened, opened
from tests.report.test_page import Reader, charts_of

Tables = tuple[pd.DataFrame, pd.DataFrame]
NUMBER = r"-?[\d.]+(?:e-?\d+)?"


@pytest.fixture(scope="module")
def made() -> Tables:
    return made_tables()


@pytest.fixture(scope="module")
def file(made, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("a page <b> & 'c'") / "report #1.html"
    path.write_text(render_page(*made, MANIFESTS, title=TITLE), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def charts(file) -> list[dict]:
    return charts_of(Reader(file.read_text("utf-8")))


@pytest.fixture(scope="module")
def wide(chromium, file) -> Opened:
    return opened(chromium, file.as_uri()).drawn()


@pytest.fixture(scope="module")
def phone(chromium, file) -> Opened:
    return opened(chromium, file.as_uri(), 390, 844, has_touch=True, is_mobile=True).drawn()


def drawings(shown: Opened, figure: str = "") -> dict[str, str]:
    """The marks of every chart that is to be seen, as the browser has them."""
    shown.settled()
    return shown.ask(
        """(figure) => Object.fromEntries([...document.querySelectorAll(`${figure} .panel:not([hidden]) [data-chart]`)].map((place) =>
        [place.dataset.chart, [...place.querySelectorAll(".role-mark")].map((mark) => mark.innerHTML).join("")]))""",
        figure,
    )


EMPTY = """() => [...document.querySelectorAll(".panel:not([hidden]) [data-chart]")].filter((place) => {
  const svg = place.querySelector("svg.marks"), box = svg?.getBoundingClientRect();
  const marks = [...place.querySelectorAll(".role-mark > :not(g):not(defs)")].filter((mark) => {
    const { width, height } = mark.getBoundingClientRect();
    return width + height > 0;
  });
  return !(box?.width > 100 && box?.height > 40 && marks.length);
}).map((place) => `${place.dataset.chart}: ${place.textContent.slice(0, 90)}`)"""


def test_every_chart_is_drawn(wide, phone, charts):
    for shown in (wide, phone):
        seen = shown.ask("() => [...document.querySelectorAll('.panel:not([hidden]) [data-chart]')].length")
        assert 60 < seen < len(charts), "the first six of many metrics, and every other chart"
        assert shown.ask(EMPTY) == []
        assert shown.page.locator(".failed").count() == 0


def test_other_tokens_are_other_drawings(wide, made):
    table, _ = made
    before = drawings(wide, "#layer_profile")
    wide.page.locator("#policy span", has_text=re.compile("^body$")).click()
    after = drawings(wide, "#layer_profile")
    assert before.keys() == after.keys()
    assert all(before[chart] != after[chart] for chart in before)
    value, low, high = hovered(wide, 6)
    at = table["model"].eq(SCRIPT) & table["metric"].eq("between_cosine") & table["kind"].eq("hidden") & table["layer"].eq(6)
    row = table[at & table["policy"].eq("body")].iloc[0]
    assert (value, low, high) == pytest.approx((row["value"], row["low"], row["high"]), rel=1e-3)
    wide.page.locator("#policy span", has_text=re.compile("^all$")).click()
    assert drawings(wide, "#layer_profile") == before
    row = table[at & table["policy"].eq("all")].iloc[0]
    assert hovered(wide, 6) == pytest.approx((row["value"], row["low"], row["high"]), rel=1e-3)


def hovered(shown: Opened, layer: int) -> tuple[float, float, float]:
    """What the tooltip says of the first model's cosine at a layer: value and interval."""
    chart = shown.page.locator("#layer_profile .panel").first
    chart.scroll_into_view_if_needed()
    shown.page.mouse.move(2, 2)
    points = chart.locator(f'path[aria-label*="model: {SCRIPT}"][aria-label*="kind: hidden"][aria-label*="layer: {layer};"]')
    points.first.hover(force=True)
    tip = shown.page.locator("#vg-tooltip-element.visible")
    tip.wait_for()
    words = tip.inner_text()
    assert SCRIPT in words
    assert tip.locator("script, img").count() == 0
    value, interval = re.search(rf"value\s+({NUMBER})", words), re.search(rf"({NUMBER}) to ({NUMBER})", words)
    assert value is not None, words
    assert interval is not None, words
    return float(value[1]), float(interval[1]), float(interval[2])


def test_a_metric_is_chosen_for_all_figures(wide):
    large, panels = wide.page.locator("#headline .role-title-text"), wide.page.locator("#layer_profile .panel")
    assert large.all_text_contents() == ["Mean cosine between items", "Dimensions in use: effective rank / d"]
    wide.page.select_option("#metric", label="isoscore")
    wide.page.locator("#layer_profile").scroll_into_view_if_needed()
    wide.page.wait_for_function("document.querySelectorAll('#layer_profile .panel:not([hidden]) svg.marks').length === 1")
    titles = wide.page.locator("#layer_profile .panel:not([hidden]) .role-title-text").all_text_contents()
    assert titles == ["isoscore"]
    wide.page.locator("#chosen").scroll_into_view_if_needed()
    wide.page.wait_for_function("document.querySelectorAll('#chosen svg.marks').length === 1")
    assert wide.page.locator("#headline .panel:not([hidden]) .role-title-text").all_text_contents() == [
        *("isoscore", "Dimensions in use: effective rank / d")
    ]
    wide.page.select_option("#metric", value="*")
    wide.drawn()
    many = panels.count()
    wide.page.wait_for_function(f"document.querySelectorAll('#layer_profile .panel:not([hidden]) svg.marks').length === {many}")
    wide.settled()
    assert wide.ask(EMPTY) == []
    names = wide.page.locator("#metric option").all_inner_texts()[2:]
    assert wide.page.locator("#layer_profile .role-title-text").all_text_contents() == names[:many] != []
    wide.page.select_option("#metric", value="")
    assert wide.page.locator("#layer_profile .panel:not([hidden])").count() == 6
    assert wide.page.locator("#chosen").is_hidden()


def test_a_model_is_left_out_of_every_chart_and_table(wide):
    # Marks that come back are drawn above the others, so they are compared in any order.
    labels = "() => [...document.querySelectorAll('.panel:not([hidden]) path[aria-label]')].map((mark) => mark.ariaLabel).sort()"
    before, every, marks = drawings(wide, "#layer_profile"), drawings(wide), wide.ask(labels)
    box = wide.page.locator("#models input").first
    box.uncheck()
    wide.settled()
    assert wide.page.locator("path[aria-label*='model: </script>']").count() == 0
    assert wide.page.locator("path[aria-label*='model: untrained:</script>']").count() > 0
    after = drawings(wide, "#layer_profile")
    assert before.keys() == after.keys()
    assert all(before[chart] != after[chart] for chart in before)
    assert wide.page.locator(".overview tbody tr").filter(visible=True).count() == 4
    assert len(drawings(wide)) < len(every), "panels of this model alone are gone"
    box.check()
    wide.settled()
    assert drawings(wide).keys() == every.keys()
    assert wide.ask(labels) == marks


def test_charts_are_drawn_when_they_come_into_view(chromium, file):
    shown = opened(chromium, file.as_uri())
    shown.page.wait_for_selector("html[data-drawn]", state="attached")
    shown.settled()
    assert shown.page.locator("#headline svg.marks").count() == 2
    assert shown.page.locator("#norms svg.marks").count() == 0
    shown.page.locator("#norms").scroll_into_view_if_needed()
    shown.page.locator("#norms svg.marks").first.wait_for()
    assert shown.complaints == []


def test_the_slider_goes_through_the_steps(wide):
    figure = "#training-1-training_motion"
    slider = wide.page.locator(f"{figure} input[type=range]")
    said = wide.page.locator(f"{figure} output")
    seen = {}
    for place, step in enumerate((0, 1, 8, 32, 128)):
        slider.evaluate("(slider, place) => { slider.value = place; slider.dispatchEvent(new Event('input', { bubbles: true })); }", place)
        assert said.inner_text() == str(step)
        seen[step] = drawings(wide, figure)
    assert len(seen[0]) > 2
    for chart in seen[0]:
        assert len({marks[chart] for marks in seen.values()}) == len(seen), "every step is a drawing of its own"
    slider.focus()
    wide.page.keyboard.press("ArrowLeft")
    assert said.inner_text() == "32"
    assert drawings(wide, figure) == seen[32]


def test_light_and_dark(wide):
    colours = (
        "() => [getComputedStyle(document.body).backgroundColor, getComputedStyle(document.querySelector('.chart .mark-text text')).fill]"
    )
    light, dark = ["rgb(255, 255, 255)", "rgb(29, 33, 40)"], ["rgb(20, 23, 28)", "rgb(228, 231, 236)"]
    button = wide.page.locator("#theme")
    assert wide.ask(colours) == light
    wide.page.emulate_media(color_scheme="dark")
    assert wide.ask(colours) == dark, "as the system has it"
    button.click()
    assert (button.inner_text(), wide.ask(colours)) == ("theme: light", light)
    wide.page.emulate_media(color_scheme="light")
    button.click()
    assert (button.inner_text(), wide.ask(colours)) == ("theme: dark", dark)
    button.click()
    assert (button.inner_text(), wide.ask(colours)) == ("theme: auto", light)


def saved(shown: Opened, button: str) -> tuple[str, str]:
    """The name and the text of what a button saves."""
    with shown.page.expect_download() as download:
        shown.page.locator(button).click()
    return download.value.suggested_filename, download.value.path().read_text("utf-8")


@pytest.mark.parametrize("name", ["table", "series"])
def test_tables_are_saved_whole(wide, made, name):
    file, text = saved(wide, f"[data-save={name}]")
    assert file == f"isoscope-{name}.csv"
    assert_carried(text, *rows_on_page(*made), name)


def test_a_figure_saves_what_it_draws(wide, charts):
    button = wide.page.locator("#norms [data-rows]")
    numbers = [int(number) for number in (button.get_attribute("data-rows") or "").split()]
    truth = [row for number in numbers for rows in charts[number]["datasets"].values() for row in rows]
    file, text = saved(wide, "#norms [data-rows]")
    found = pd.read_csv(io.StringIO(text, newline=""))
    assert file == "isoscope-norms.csv"
    assert len(found) == len(truth) > 100
    assert set(found["panel"]) == {charts[number]["title"] for number in numbers}
    for column in ("layer", "x", "y", "value"):
        assert found[column].dropna().tolist() == [row[column] for row in truth if row.get(column) is not None]


def test_the_table_is_leafed_through_and_filtered(wide, made):
    table = rows_on_page(*made)[0]
    wide.page.locator("#numbers h2").scroll_into_view_if_needed()
    where, rows = wide.page.locator("#where"), wide.page.locator("#full tbody tr")
    where.filter(has_text="1–25").wait_for()
    first = rows.first.inner_text()
    assert where.inner_text() == f"1–25 of {len(table)}"
    assert wide.page.locator("#previous").is_disabled()
    wide.page.locator("#next").click()
    assert where.inner_text() == f"26–50 of {len(table)}"
    assert rows.first.inner_text() != first
    wide.page.locator("#previous").click()
    assert rows.first.inner_text() == first
    wide.page.locator("#filters label", has_text=re.compile("^model")).locator("select").select_option(MARKUP)
    own = table[table["model"].eq(MARKUP)]
    assert where.inner_text() == f"1–25 of {len(own)}"
    assert set(wide.page.locator("#full tbody td:first-child").all_text_contents()) == {MARKUP}
    wide.page.locator("#filters label", has_text=re.compile("^metric")).locator("select").select_option("isoscore")
    head = wide.page.locator("#full th").all_inner_texts()
    shown = [float(text) for text in wide.page.locator(f"#full td:nth-child({head.index('value') + 1})").all_inner_texts()]
    assert shown == pytest.approx(own.loc[own["metric"].eq("isoscore"), "value"].head(25).tolist(), rel=1e-5)


def test_the_table_is_sorted_and_searched(wide, made):
    table = rows_on_page(*made)[0]
    wide.page.locator("#numbers h2").scroll_into_view_if_needed()
    wide.page.locator("#where").filter(has_text="1–").wait_for()
    for choice in wide.page.locator("#filters select").all():
        choice.select_option("")
    head = wide.page.locator("#full th").all_inner_texts()
    value = wide.page.locator("#full th", has_text=re.compile("^value"))
    values = wide.page.locator(f"#full td:nth-child({head.index('value') + 1})")
    for direction, ascending in (("ascending", True), ("descending", False)):
        value.locator("button").press("Enter")
        assert value.get_attribute("aria-sort") == direction
        shown = [float(text) for text in values.all_inner_texts()]
        assert shown == pytest.approx(table["value"].sort_values(ascending=ascending).head(25).tolist(), rel=1e-5)
    assert wide.page.locator("#full th[aria-sort]").count() == 1
    wide.page.locator("#filters input").fill("STABLE_rank")
    assert wide.page.locator("#where").inner_text() == f"1–25 of {table['metric'].eq('stable_rank').sum()}"
    wide.page.locator("#filters input").fill("")


def test_the_sidebar_leads_to_every_section_and_marks_the_current_one(wide):
    wide.ask("() => window.scrollTo(0, 0)")
    links = wide.page.locator("nav a")
    goals = [(link.get_attribute("href") or "").removeprefix("#") for link in links.all()]
    assert len(goals) > 20
    assert all(wide.page.locator(f"[id='{goal}']").count() == 1 for goal in goals)
    last = links.nth(goals.index("norms"))
    last.click()
    wide.page.wait_for_function("Math.abs(document.getElementById('norms').getBoundingClientRect().top) < innerHeight / 2")
    wide.page.wait_for_selector("nav a[href='#norms'][aria-current]")
    assert wide.page.locator("nav a[aria-current]").count() == 1
    box = wide.page.locator(".side").bounding_box()
    assert box is not None
    assert box["y"] == 0, "the sidebar stays"
    assert wide.page.locator("details.claim").first.is_hidden(), "claims are folded"
    wide.page.locator("#papers summary").first.click()
    claim = wide.page.locator("details.claim").first
    for inside in (True, False):
        claim.locator("summary").click()
        assert claim.locator("p").first.is_visible() is inside


def test_a_keyboard_and_a_screen_reader_find_their_way(chromium, file):
    shown = opened(chromium, file.as_uri())
    shown.page.keyboard.press("Tab")
    assert shown.ask("() => document.activeElement.textContent") == "Skip to the findings"
    shown.page.keyboard.press("Enter")
    assert shown.ask("() => document.activeElement.id") == "main"
    assert {name: shown.page.locator(name).count() for name in ("main", "nav[aria-label]", "header", "footer", "h1")} == dict.fromkeys(
        ("main", "nav[aria-label]", "header", "footer", "h1"), 1
    )
    shown.page.locator("#policy input:checked").focus()
    shown.page.keyboard.press("ArrowRight")
    assert shown.page.locator("#policy input:checked").get_attribute("value") != "all"
    unnamed = """() => [...document.querySelectorAll("input, select, button, summary, section, [role=group], svg.marks")].filter(
      (element) => !(element.textContent.trim() || element.labels?.length || element.getAttribute("aria-label"))
    ).map((element) => element.outerHTML)"""
    shown.drawn()
    assert shown.ask(unnamed) == []
    assert shown.page.locator(".panel:not([hidden]) svg.marks:not([role=img][aria-label])").count() == 0
    assert shown.page.locator("thead th:not([scope=col]), tbody th:not([scope=row])").count() == 0
    assert shown.page.locator("table:not(:has(caption))").count() == shown.page.locator("[role=region] table:not(:has(caption))").count()


TURNED = """() => [...document.querySelectorAll("body :not(:is(svg, script, #full, #filters) *, script)")].filter((element) =>
  [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.includes("\\u202e"))
).map((element) => element.outerHTML)"""


def test_names_stay_text(wide):
    assert wide.ask("() => window.owned") is None
    assert wide.page.title() == TITLE
    assert wide.page.locator("h1").inner_text() == TITLE
    assert wide.page.locator("img, iframe, object, h2 b").count() == 0
    assert wide.page.locator("script").count() == 6, "four packed, the page's own, and the drawing library"
    names = wide.page.locator(".overview .name").all_text_contents()
    assert names[:3] == [SCRIPT, MARKUP, f"untrained:{SCRIPT}"]
    assert "{{7*7}} {% raw %} ${7*7}" in names[1]
    assert names[3] == TRAINING.replace("\u202e", "\ufffd"), "what turns text around is shown, not obeyed"
    assert wide.ask(TURNED) == []
    assert MANIFESTS[0]["file"] in wide.page.locator("pre").text_content().replace("\\\\", "\\")
    assert SUITES[1] not in wide.ask("() => document.body.innerText")


CUT = """() => [...document.querySelectorAll(".panel:not([hidden]) svg.marks")].flatMap((svg) => {
  const room = svg.getBoundingClientRect();
  return [...svg.querySelectorAll("text")].filter((text) => {
    const box = text.getBoundingClientRect();
    const inside = box.right < room.right + 2 && box.left > room.left - 2 && box.bottom < room.bottom + 3;
    return box.width && getComputedStyle(text).opacity > 0 && !inside;
  }).map((text) => `${svg.closest(".figure").id}: ${text.textContent}`);
})"""


def test_a_chart_is_saved_as_picture_numbers_and_python(wide, made):
    panel = wide.page.locator("#layer_profile .panel").first
    panel.locator(".export summary").click()
    files = {}
    for kind in ("svg", "png", "csv"):
        with wide.page.expect_download() as download:
            panel.locator(f"[data-export={kind}]").click()
        assert download.value.suggested_filename == f"isoscope-layer_profile-{panel.locator('.chart').get_attribute('data-chart')}.{kind}"
        files[kind] = download.value.path().read_bytes()
    assert files["svg"].startswith(b"<svg")
    assert b"currentColor" not in files["svg"]
    assert files["png"].startswith(b"\x89PNG")
    width, height = (int.from_bytes(files["png"][at : at + 4], "big") for at in (16, 20))
    assert width > 500 < 4 * height
    table = made[0]
    rows = pd.read_csv(io.BytesIO(files["csv"]))
    assert len(rows) > 60
    line = rows[rows["line"].eq(SCRIPT)].iloc[5]
    own = table[table["model"].eq(line["line"]) & table["metric"].eq("between_cosine") & table["policy"].eq(line["policy"])]
    assert line["value"] == pytest.approx(own.loc[own["layer"].eq(line["layer"]) & own["kind"].eq(line["kind"]), "value"].item(), rel=5e-4)
    code = panel.locator(".export code")
    assert code.inner_text() == 'import isoscope; isoscope.open("RUN").plot("between_cosine")'
    wide.page.locator("#policy span", has_text=re.compile("^body$")).click()
    wide.settled()
    assert code.inner_text() == 'import isoscope; isoscope.open("RUN").plot("between_cosine", policy="body")'
    wide.page.locator("#policy span", has_text=re.compile("^all$")).click()
    wide.settled()
    other = wide.page.locator("#spectrum .export code").first.text_content()
    assert other == 'from isoscope.report import draw_figure; draw_figure("RUN", "spectrum")'


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_wider_than_the_window_and_no_label_is_cut(wide, phone, scheme):
    for shown, width in ((wide, 1440), (phone, 390)):
        shown.page.emulate_media(color_scheme=scheme)
        shown.ask("() => document.querySelectorAll('details').forEach((part) => { part.open = true; })")
        assert shown.ask("() => window.innerWidth") == width
        assert shown.ask("() => document.scrollingElement.scrollWidth") <= width
        assert shown.ask(CUT) == []


def test_a_phone_opens_sections_and_table_within_its_width(phone):
    for fold in phone.page.locator(".side .fold").all():
        fold.locator("summary").tap()
        assert phone.ask("() => document.scrollingElement.scrollWidth") == 390
    phone.page.locator("#numbers h2").scroll_into_view_if_needed()
    phone.page.locator("#where").filter(has_text="1–25").wait_for()
    assert phone.ask("() => document.scrollingElement.scrollWidth") == 390


BROKEN = """() => {
  const range = document.createRange(), broken = [];
  const words = ".lead, .small, .caption, .answers li, dt, dd, summary, button, label, h2, .overview td, .overview small";
  for (const element of document.querySelectorAll(words)) {
    for (const node of element.childNodes) {
      if (node.nodeType !== Node.TEXT_NODE || !element.offsetParent) continue;
      for (const { 0: word, index } of node.data.matchAll(/[a-z]{3,14}/gi)) {
        range.setStart(node, index);
        range.setEnd(node, index + word.length);
        if (new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size > 1) broken.push(`${word} in ${element.className}`);
      }
    }
  }
  return broken;
}"""


def test_a_phone_breaks_no_word(chromium, page_text, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(page_text, encoding="utf-8")
    shown = opened(chromium, path.as_uri(), 390, 844, has_touch=True, is_mobile=True)
    assert shown.page.locator(".side .fold").count() == 2
    assert shown.page.locator(".side .fold[open]").count() == 0
    shown.ask("() => document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    assert shown.ask(BROKEN) == []


def test_paper_has_no_controls(wide):
    wide.page.emulate_media(media="print", color_scheme="dark")
    try:
        controls = "nav, button, select, input[type=range], .filters, .pages, .tools, .export, #full, #policy input:not(:checked) + span"
        assert wide.page.locator(controls).count() > 40
        assert wide.page.locator(controls).filter(visible=True).count() == 0
        assert (
            wide.page.locator("#summary .overview, #policy input:checked + span, #layer_profile svg.marks").filter(visible=True).count()
            == 8
        )
        assert wide.ask("() => getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
        assert wide.ask("() => document.scrollingElement.scrollWidth <= innerWidth")
    finally:
        wide.page.emulate_media(media="screen", color_scheme="light")


def test_without_scripts_the_answer_is_there(chromium, file):
    plain = opened(chromium, file.as_uri(), java_script_enabled=False)
    assert plain.page.locator(".overview tbody tr").count() == 5
    assert plain.page.locator(".answers .outcome").filter(visible=True).count() == 5
    assert "need JavaScript" in plain.page.locator("main").inner_text()


def test_nothing_left_the_page_and_nothing_complained(wide, phone, file):
    """Last, so that it speaks of all that was done above."""
    for shown in (wide, phone):
        assert shown.complaints == []
        assert {url for url in shown.requests if not url.startswith(f"blob:{file.as_uri()[:7]}")} == {file.as_uri()}
