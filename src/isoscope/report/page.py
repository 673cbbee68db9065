"""The page: everything a run says, in one HTML file that opens from disk and loads nothing."""

from __future__ import annotations

import base64
import datetime as dt
import gzip
import json
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

import pandas as pd

from isoscope.core.group import checkpoints, one_checkpoint, suites
from isoscope.core.version import __version__
from isoscope.drawing import PALETTE, policies
from isoscope.report.chance import listed
from isoscope.report.charts import Drawn, drawn
from isoscope.report.files import vega_lite_version
from isoscope.report.line import Line, all_lines, place, share, show, span
from isoscope.report.provenance import Meaning, meanings, specification
from isoscope.report.summary import summary
from isoscope.report.training import Training, derived_meaning, held, trainings

Manifests = list[dict[str, Any]]


@dataclass(frozen=True)
class Row:
    """The few numbers that matter, of one model; all but `layers` at the site where its cosine peaks."""

    name: str
    layers: int
    place: str
    cosine: str
    interval: str
    drift: str
    rank: str
    top: str
    n: str
    d: str


def write_report(table: pd.DataFrame, series: pd.DataFrame, manifests: Manifests, out: Path, *, title: str | None = None) -> Path:
    """Write the page of these tables to `out` and answer where it is."""
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(page(table, series, manifests, title=title), encoding="utf-8")
    return out


def page(table: pd.DataFrame, series: pd.DataFrame, manifests: Manifests, *, title: str | None = None) -> str:
    """The page as text. All that comes from models and files goes through autoescape or `packed`."""
    import jinja2
    from markupsafe import Markup

    now = one_checkpoint(table, series)
    lines, charts = all_lines(*now), drawn(*now)
    sections = trainings(table, series)
    every = [*charts, *(chart for section in sections for chart in section.charts)]
    kept_table, kept_series = held(table, series)
    template = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(asset("page.html.jinja"))
    return template.render(
        title=title or "The geometry of representations",
        when=dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        version=__version__,
        measured=measured(table, lines),
        policies=policies(table),
        rows=[row for line in lines if (row := overview(line)) is not None],
        summaries=[(line.name, line.policy, summary(line, lines)) for line in lines],
        legend=[(line.name, PALETTE[i % len(PALETTE)]) for i, line in enumerate(lines) if not all(chart.legend for chart in charts)],
        sections=numbered(charts),
        trainings=followed(sections, len([panel for chart in charts for panel in chart.panels])),
        specifications=[(line.name, specification(line)) for line in lines],
        meanings=[derived(meaning) for meaning in meanings(table, series)],
        manifests=[json.dumps(manifest, indent=1, ensure_ascii=False, default=str) for manifest in manifests],
        counts={"table": len(kept_table), "series": len(kept_series)},
        left_out=len(table) - len(kept_table) + len(series) - len(kept_series),
        css=Markup(asset("page.css")),
        script=Markup(asset("page.js")),
        vega=Markup(vega()),
        payload={
            "charts": packed(json.dumps([panel for chart in every for panel in chart.panels], allow_nan=False, separators=(",", ":"))),
            "table": packed(kept_table.to_csv(index=False)),
            "series": packed(kept_series.to_csv(index=False)),
        },
    )


def asset(name: str) -> str:
    """A file that lies beside this one."""
    return resources.files("isoscope.report").joinpath(name).read_text(encoding="utf-8")


@lru_cache
def vega() -> str:
    """Vega, Vega-Lite and vega-embed as one script, as vl-convert carries them."""
    import vl_convert

    bundle: Any = vl_convert.javascript_bundle  # its stub asks for a snippet that the function does not need
    text: str = bundle(vl_version=vega_lite_version())
    return text.replace("</script", "<\\/script")


def packed(text: str) -> str:
    """Text, compressed, in letters and digits, which cannot leave their script element whatever it says: the page unpacks it."""
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def numbered(charts: list[Drawn], start: int = 0) -> list[tuple[Drawn, list[int]]]:
    """Each figure with the numbers of its panels in the page's list of charts."""
    sections = []
    for chart in charts:
        sections.append((chart, list(range(start, start + len(chart.panels)))))
        start += len(chart.panels)
    return sections


def followed(sections: list[Training], start: int) -> list[tuple[Training, list[tuple[Drawn, list[int]]]]]:
    """Each suite with its figures, numbered on from the page's others."""
    found = []
    for section in sections:
        found.append((section, numbered(section.charts, start)))
        start += sum(len(chart.panels) for chart in section.charts)
    return found


def derived(meaning: Meaning) -> Meaning:
    """The meaning of a metric, in the words of those that are derived from a training where it is one of them."""
    words = derived_meaning(meaning.name)
    return Meaning(meaning.name, words, "") if words else meaning


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
    tokens = listed(policies(table)) if policies(table) else "not recorded"
    return f"{counted(models, 'model')}{of}{on}: {counted(metrics, 'metric')} at {counted(sites, 'site')}; tokens: {tokens}."


def counted(number: int, word: str) -> str:
    """A number and its word.

    >>> counted(1, "model"), counted(3, "site")
    ('1 model', '3 sites')
    """
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def overview(line: Line) -> Row | None:
    """The row of one model in the overview; None where no cosine is defined."""
    peak = line.peak()
    if peak is None:
        return None

    def there(metric: str) -> float:
        row = line.at(metric, peak)
        return float("nan") if row is None else float(row["value"])

    depth = line.table.loc[line.table["kind"].eq("hidden"), "layer"].nunique()
    interval = "" if pd.isna(peak["low"]) else span(peak["low"], peak["high"])
    rank = share(there("effective_rank") / float(peak["d"]))
    numbers = {"drift": show(there("drift_ratio")), "rank": rank, "top": show(there("top_share"))}
    return Row(line.name, depth, place(peak), show(float(peak["value"])), interval, n=f"{peak['n']:,}", d=f"{peak['d']:,}", **numbers)
