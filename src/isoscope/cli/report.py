"""isoscope report"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    import pandas as pd


def run(
    runs: Annotated[list[str], typer.Argument(metavar="RUN", help="One or more runs; they share a page.")],
    out: Annotated[str, typer.Option(help="The page.")] = "report.html",
    figures: Annotated[str | None, typer.Option(help="A folder for the same figures as SVG, PDF and PNG.")] = None,
    also: Annotated[
        list[str] | None, typer.Option(help="A metric or series that is computed only on request, from what the run kept; may be repeated.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="With --figures: this figure alone, and no page; may be repeated.")
    ] = None,
    title: Annotated[str | None, typer.Option(help="The page's title.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the paths as JSON.")] = False,
) -> None:
    """One self-contained page: what was found in plain sentences, profiles, spectra, the table and how each number was made.

    **Examples**

    `isoscope report runs/bert runs/gpt2 --out both.html`

    `isoscope report runs/bert --figures figures/`

    `isoscope report runs/bert --only layer_profile --figures figures/`

    `isoscope report runs/bert --also local_share --also local_share_excess --also gride_scales`
    """
    from isoscope.core.errors import IsoscopeError
    from isoscope.core.extras import require_extra
    from isoscope.core.failures import Failures
    from isoscope.figures import figures as known
    from isoscope.report import write_figures, write_report

    if only and not figures:
        raise IsoscopeError("--only names figures that are written as files; say where with --figures FOLDER.")
    for name in only or []:
        known[name]
    require_extra("report", "isoscope report")
    table, series, manifests = tables_of(runs, also or [])
    failures = Failures()
    try:
        drawn = write_figures(table, series, Path(figures), names=only, failures=failures) if figures else []
        page = None if only else write_report(table, series, manifests, Path(out), title=title, failures=failures)
    except OSError as error:
        raise IsoscopeError(f"Cannot write {error.filename or out}: {error.strerror or error}.") from error
    if json:
        from json import dumps

        typer.echo(dumps({"page": page and str(page), "figures": [str(path) for path in drawn]}))
    else:
        for path in [*drawn, *([page] if page else [])]:
            typer.echo(f"{path}")
    failures.raise_all("the report")
    if only and not drawn and not json:
        typer.echo("isoscope: note: these runs hold nothing that the figure could draw.", err=True)


def tables_of(runs: list[str], also: list[str] | None = None) -> tuple[pd.DataFrame, pd.DataFrame, list[dict[str, Any]]]:
    """The table, the series and the manifests of runs together; `also`: what is computed only where it is named."""
    from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, concat_tables
    from isoscope.engine.results import Results
    from isoscope.metrics import curves

    opened = [Results(run) for run in runs]
    drawn_curves = {entry.name for entry in curves()}
    numbers, lines = ([name for name in also or [] if (name in drawn_curves) is wanted] for wanted in (False, True))
    rows = [results.table(policy="every") for results in opened] + [results.table(numbers, "every") for results in opened if numbers]
    points = [results.series() for results in opened] + [results.series(lines) for results in opened if lines]
    table = concat_tables(rows, TABLE_COLUMNS).drop_duplicates(ignore_index=True)
    series = concat_tables(points, SERIES_COLUMNS).drop_duplicates(ignore_index=True)
    return table, series, [manifest for results in opened for manifest in results.manifests()]
