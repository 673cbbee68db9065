"""The page: a run in one HTML file, which opens from disk and loads nothing."""

from __future__ import annotations

import datetime as dt
import json
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from isoscope import __version__
from isoscope.charts.legends import PALETTE
from isoscope.charts.panels import list_policies
from isoscope.core.errors import Failures
from isoscope.core.model_groups import list_checkpoints, list_suites, select_one_checkpoint
from isoscope.core.study import Section, Tables, studies
from isoscope.core.wording import format_count, format_list
from isoscope.report.bundle import pack_json, read_asset, render_template, vega_script
from isoscope.report.charts import Drawing, draw_all, group_by_topic, pack_panels, place_on_page
from isoscope.report.columns import pack_series, pack_table
from isoscope.report.diagnosis import DIAGNOSIS, Sign, diagnosis
from isoscope.report.headline import headline
from isoscope.report.line import Line, all_lines
from isoscope.report.methods import meanings, specification
from isoscope.report.model_verdicts import ModelVerdict, model_verdict
from isoscope.report.overview import HEIGHT, WIDTH, overview
from isoscope.report.paper_verdicts import explain_undecided, figure_citations, paper_sections, verdict_rows
from isoscope.report.summary import summarise

Manifests = list[dict[str, Any]]
TRAININGS, OVERVIEW, HEADLINE = "the sections on trainings", "the table of models", "the charts of the first screen"
"""The names under which failures of these parts are noted."""


def write_report(
    table: pd.DataFrame,
    series: pd.DataFrame,
    manifests: Manifests,
    out: Path,
    *,
    title: str | None = None,
    paper: str = "",
    failures: Failures | None = None,
) -> Path:
    """Write the page of these tables to `out` and return its path.

    `paper` is the name of a paper that the run reproduces; on other pages the claims of papers are folded. A figure, claim or section
    that raises leaves a box on the page. Its exception goes into `failures`; without `failures` it is raised after the page is written.
    """
    noted = Failures() if failures is None else failures
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(render_page(table, series, manifests, title=title, paper=paper, failures=noted), encoding="utf-8")
    if failures is None:
        noted.raise_all(f"the page {out}")
    return out


def render_page(
    table: pd.DataFrame,
    series: pd.DataFrame,
    manifests: Manifests,
    *,
    title: str | None = None,
    paper: str = "",
    state: str = "",
    failures: Failures | None = None,
) -> str:
    """The page as text. Text from models and files passes through autoescape or `pack`.

    `paper` as in `write_report`. `state` is the server's name for the state of the run; a page with a state polls for a newer one.
    `failures` collects the exceptions of parts that raise; without it, one failed part means that there is no page.
    """
    if failures is None:
        text = render_page(table, series, manifests, title=title, paper=paper, state=state, failures=(noted := Failures()))
        noted.raise_all("the page")
        return text
    from markupsafe import Markup

    # One checkpoint of each training stands for it on the page; only the sections on trainings show all of them.
    shown_table, shown_series = select_one_checkpoint(table, series)
    lines = all_lines(shown_table, shown_series)
    first = failures.attempt(HEADLINE, lambda: headline(lines))
    large = place_on_page([first] if first else [])
    charts = place_on_page(draw_all(shown_table, shown_series, failures), count_panels(large))
    sections = number_on(
        failures.attempt(TRAININGS, lambda: study_sections(table, series, failures)) or [], count_panels([*large, *charts])
    )
    every_chart = [*large, *charts, *(chart for _, own in sections for chart in own)]

    columns, rows = failures.attempt(OVERVIEW, lambda: overview(lines)) or ([], [])
    verdicts = verdict_rows(table, series, failures=failures)
    signs = diagnosis(table, failures)
    summaries = [(line.name, line.policy, *try_to_summarise(line, lines, failures)) for line in lines]
    embedded_table, embedded_series = rows_on_page(table, series)
    return render_template(
        "page.html.jinja",
        title=title or "The geometry of representations",
        when=dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        version=__version__,
        state=state,
        measured=describe_table(table, lines),
        policies=list_policies(table),
        columns=columns,
        rows=rows,
        spark=(WIDTH, HEIGHT),
        answers=failures.attempt(OVERVIEW, lambda: model_verdicts(lines, signs)) or [],
        headline=large[0] if large else None,
        summaries=summaries,
        failed={
            "trainings": failures.describe(TRAININGS),
            "overview": failures.describe(OVERVIEW),
            "headline": failures.describe(HEADLINE),
            "diagnosis": failures.describe(DIAGNOSIS),
        },
        legend=[(line.name, PALETTE[i % len(PALETTE)]) for i, line in enumerate(lines)],
        metrics=list(dict.fromkeys(name for chart in every_chart for name in chart.choices)),
        topics=group_by_topic(charts),
        trainings=sections,
        citations=figure_citations(),
        papers=paper_sections(every_chart, verdicts),
        reproduced=paper,
        undecided=explain_undecided(verdicts, shown_table["model"].nunique()),
        signs=signs,
        specifications=[(line.name, specification(line)) for line in lines],
        meanings=meanings(table, series),
        manifests=[json.dumps(manifest, indent=1, ensure_ascii=False, default=str) for manifest in manifests],
        counts={"table": len(embedded_table), "series": len(embedded_series)},
        left_out=len(table) - len(embedded_table) + len(series) - len(embedded_series),
        css=Markup(read_asset("page.css")),
        script=Markup(read_asset("page.js")),
        payload={
            "charts": pack_json(pack_panels([panel for chart in every_chart for panel in chart.panels])),
            "table": pack_json(pack_table(embedded_table)),
            "series": pack_json(pack_series(embedded_series)),
            "vega": vega_script(),
        },
    )


def try_to_summarise(line: Line, lines: list[Line], failures: Failures) -> tuple[dict[str, str], str]:
    """The sentences about a model by topic, and the exception if they could not be written."""
    part = f"the summary of {line.name}"
    return failures.attempt(part, partial(summarise, line, lines)) or {}, failures.describe(part)


def model_verdicts(lines: list[Line], signs: list[Sign]) -> list[ModelVerdict]:
    """The verdict on every line that has one."""
    return [verdict for line in lines if (verdict := model_verdict(line, signs))]


def count_panels(charts: list[Drawing]) -> int:
    """The number of panels of these figures."""
    return sum(len(chart.panels) for chart in charts)


def number_on(sections: list[Section], start: int) -> list[tuple[Section, list[Drawing]]]:
    """Each suite with its figures, whose panels are numbered from `start` on."""
    numbered = []
    for i, section in enumerate(sections, 1):
        charts = place_on_page(section.charts, start, prefix=f"training-{i}-")
        numbered.append((section, charts))
        start += count_panels(charts)
    return numbered


def study_sections(table: pd.DataFrame, series: pd.DataFrame, failures: Failures) -> list[Section]:
    """The sections that studies add."""
    return [section for study in studies if study.sections is not None for section in study.sections(table, series, failures)]


def rows_on_page(table: pd.DataFrame, series: pd.DataFrame) -> Tables:
    """The rows and points that the page embeds; studies may leave out some."""
    for study in studies:
        if study.select_rows is not None:
            table, series = study.select_rows(table, series)
    return table, series


def describe_table(table: pd.DataFrame, lines: list[Line]) -> str:
    """The contents of the table in a sentence."""
    if table.empty:
        return "The table is empty: nothing was measured."
    shown = select_one_checkpoint(table, table.iloc[:0])[0]
    about_a_stack = shown["kind"].eq("hidden") & shown["layer"].isna()
    sites = len(shown.loc[~about_a_stack, ["model", "revision", "step", "seed", "stack", "kind", "layer", "head"]].drop_duplicates())
    data = {value for line in lines if (value := specification(line).get("data"))}
    models, metrics = table["model"].nunique(), table["metric"].nunique()
    trained = list_checkpoints(table[table["model"].isin(list_suites(table))])
    of_trainings = f" ({format_count(len(trained), 'checkpoint')})" if len(trained) else ""
    on_data = f" on {format_list(sorted(data))}" if data else ""
    tokens = format_list(list_policies(table)) if list_policies(table) else "not recorded"
    measured = f"{format_count(metrics, 'metric')} at {format_count(sites, 'site')}"
    return f"{format_count(models, 'model')}{of_trainings}{on_data}: {measured}; tokens: {tokens}."
