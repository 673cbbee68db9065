"""The page: everything a run says, in one HTML file that opens from disk and loads nothing."""

from __future__ import annotations

import datetime as dt
import json
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from isoscope.core.bounded import strict_json
from isoscope.core.failures import Failures
from isoscope.core.group import checkpoints, one_checkpoint, suites
from isoscope.core.study import Section, Tables, studies
from isoscope.core.version import __version__
from isoscope.drawing.colours import PALETTE
from isoscope.drawing.policies import list_policies
from isoscope.report.bundle import asset, packed, rendered, vega
from isoscope.report.chance import listed
from isoscope.report.charts import drawn
from isoscope.report.cited import cited, papers_on_page, tally_of, too_few
from isoscope.report.claims import verdicts
from isoscope.report.contents import Placed, by_topic, placed
from isoscope.report.diagnosis import DIAGNOSIS, diagnosis
from isoscope.report.line import Line, all_lines
from isoscope.report.overview import HEIGHT, WIDTH, overview
from isoscope.report.provenance import meanings, specification
from isoscope.report.summary import summary

Manifests = list[dict[str, Any]]
TRAININGS, OVERVIEW = "the sections on trainings", "the table of models"
"""What failures in them are noted under."""

POINT = "%.9g"
"""How a point of a curve is carried: nine digits give back every float32, and all seventeen would be a fourth of the page.

The table keeps all digits; rows that resemble each other lie side by side there, which packs them to three quarters.
"""


def write_report(
    table: pd.DataFrame,
    series: pd.DataFrame,
    manifests: Manifests,
    out: Path,
    *,
    title: str | None = None,
    failures: Failures | None = None,
) -> Path:
    """Write the page of these tables to `out` and answer where it is.

    A figure, claim or section that raises leaves a box on the page; what it raised is noted in `failures`, or without them raised when the
    page is written.
    """
    noted = Failures() if failures is None else failures
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(page(table, series, manifests, title=title, failures=noted), encoding="utf-8")
    if failures is None:
        noted.raise_all(f"the page {out}")
    return out


def page(
    table: pd.DataFrame,
    series: pd.DataFrame,
    manifests: Manifests,
    *,
    title: str | None = None,
    state: str = "",
    failures: Failures | None = None,
) -> str:
    """The page as text. All that comes from models and files goes through autoescape or `packed`.

    `state`: what a server calls the state of the run; a page that has one asks whether there is a newer one. `failures`: where parts that
    raise are noted; without them there is no page of which a part failed.
    """
    if failures is None:
        text = page(table, series, manifests, title=title, state=state, failures=(noted := Failures()))
        noted.raise_all("the page")
        return text
    from markupsafe import Markup

    now = one_checkpoint(table, series)
    lines, charts = all_lines(*now), placed(drawn(*now, failures))
    courses = failures.attempt(TRAININGS, lambda: study_sections(table, series, failures)) or []
    sections = followed(courses, sum(len(chart.numbers) for chart in charts))
    every = [*charts, *(chart for _, own in sections for chart in own)]
    kept_table, kept_series = rows_on_page(table, series)
    columns, rows = failures.attempt(OVERVIEW, lambda: overview(lines)) or ([], [])
    judged = verdicts(table, series, failures=failures)
    signs = diagnosis(table, failures)
    summaries = [(line.name, line.policy, *summarised(line, lines, failures)) for line in lines]
    tallies = {line.name: found for line in lines if (found := tally_of(str(line.table["model"].iloc[0]), judged))}
    return rendered(
        "page.html.jinja",
        title=title or "The geometry of representations",
        when=dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        version=__version__,
        state=state,
        measured=measured(table, lines),
        policies=list_policies(table),
        columns=columns,
        rows=rows,
        spark=(WIDTH, HEIGHT),
        summaries=summaries,
        failed={"trainings": failures.said(TRAININGS), "overview": failures.said(OVERVIEW), "diagnosis": failures.said(DIAGNOSIS)},
        legend=[(line.name, PALETTE[i % len(PALETTE)]) for i, line in enumerate(lines) if not all(chart.legend for chart in charts)],
        topics=by_topic(charts),
        trainings=sections,
        cited=cited(),
        papers=papers_on_page(every, judged),
        tallies=tallies,
        too_few=too_few(judged, tallies),
        signs=signs,
        specifications=[(line.name, specification(line)) for line in lines],
        meanings=meanings(table, series),
        manifests=[json.dumps(manifest, indent=1, ensure_ascii=False, default=str) for manifest in manifests],
        counts={"table": len(kept_table), "series": len(kept_series)},
        left_out=len(table) - len(kept_table) + len(series) - len(kept_series),
        css=Markup(asset("page.css")),
        script=Markup(asset("page.js")),
        payload={
            "charts": packed(strict_json([panel for chart in every for panel in chart.panels], separators=(",", ":"))),
            "table": packed(kept_table.sort_values(["model", "metric"], kind="stable").to_csv(index=False)),
            "series": packed(kept_series.to_csv(index=False, float_format=POINT)),
            "vega": vega(),
        },
    )


def summarised(line: Line, lines: list[Line], failures: Failures) -> tuple[dict[str, str], str]:
    """The sentences on a model by topic, and the exception where they could not be written."""
    part = f"the summary of {line.name}"
    return failures.attempt(part, partial(summary, line, lines)) or {}, failures.said(part)


def followed(sections: list[Section], start: int) -> list[tuple[Section, list[Placed]]]:
    """Each suite with its figures, numbered on from the page's others."""
    found = []
    for i, section in enumerate(sections, 1):
        own = placed(section.charts, start, within=f"training-{i}-")
        found.append((section, own))
        start += sum(len(chart.numbers) for chart in own)
    return found


def study_sections(table: pd.DataFrame, series: pd.DataFrame, failures: Failures) -> list[Section]:
    """The sections that studies add."""
    return [section for study in studies if study.sections is not None for section in study.sections(table, series, failures)]


def rows_on_page(table: pd.DataFrame, series: pd.DataFrame) -> Tables:
    """The rows and points that the page carries; studies may leave out some."""
    for study in studies:
        if study.select_rows is not None:
            table, series = study.select_rows(table, series)
    return table, series


def measured(table: pd.DataFrame, lines: list[Line]) -> str:
    """What the table holds, in a sentence."""
    if table.empty:
        return "The table is empty: nothing was measured."
    shown = one_checkpoint(table, table.iloc[:0])[0]
    whole_stacks = shown["kind"].eq("hidden") & shown["layer"].isna()
    sites = len(shown.loc[~whole_stacks, ["model", "revision", "step", "seed", "stack", "kind", "layer", "head"]].drop_duplicates())
    data = {value for line in lines if (value := specification(line).get("data"))}
    models, metrics = table["model"].nunique(), table["metric"].nunique()
    trained = checkpoints(table[table["model"].isin(suites(table))])
    of = f" ({counted(len(trained), 'checkpoint')})" if len(trained) else ""
    on = f" on {listed(sorted(data))}" if data else ""
    tokens = listed(list_policies(table)) if list_policies(table) else "not recorded"
    return f"{counted(models, 'model')}{of}{on}: {counted(metrics, 'metric')} at {counted(sites, 'site')}; tokens: {tokens}."


def counted(number: int, word: str) -> str:
    """A number and its word.

    >>> counted(1, "model"), counted(3, "site")
    ('1 model', '3 sites')
    """
    return f"{number:,} {word}{'' if number == 1 else 's'}"
