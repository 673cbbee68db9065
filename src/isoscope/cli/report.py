"""isoscope report"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from isoscope.console.arguments import OnRequest, RunFolders
from isoscope.console.output import print_json, print_note, write_errors_as_user_errors

if TYPE_CHECKING:
    import pandas as pd


def run(
    runs: RunFolders,
    out: Annotated[str, typer.Option(help="The file of the page.")] = "report.html",
    figures: Annotated[str | None, typer.Option(help="A folder for the same figures as SVG, PDF and PNG.")] = None,
    metric: OnRequest = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="With --figures: write only this figure, and no page; may be repeated.")
    ] = None,
    title: Annotated[str | None, typer.Option(help="The title of the page.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the paths as JSON.")] = False,
) -> None:
    """Write one self-contained page: findings in plain sentences, profiles, spectra, the table, and how each number was made.

    **Examples**

    `isoscope report runs/bert runs/gpt2 --out both.html`

    `isoscope report runs/bert --figures figures/`

    `isoscope report runs/bert --only layer_profile --figures figures/`

    `isoscope report runs/bert --metric local_share --metric local_share_excess --metric gride_scales`
    """
    from isoscope.core.errors import Failures, IsoscopeError, require_extra
    from isoscope.figures import figures as known
    from isoscope.report import write_figures, write_report

    if only and not figures:
        raise IsoscopeError("--only chooses figures to write as files; name a folder for them with --figures FOLDER.")
    for name in only or []:
        known[name]  # refuses an unknown name before anything is read
    require_extra("report", "isoscope report")
    table, series, manifests = read_runs(runs, metric or [])
    failures = Failures()
    with write_errors_as_user_errors(out):
        drawn = write_figures(table, series, Path(figures), names=only, failures=failures) if figures else []
        page = None if only else write_report(table, series, manifests, Path(out), title=title, failures=failures)
    if json:
        print_json({"page": page and str(page), "figures": [str(path) for path in drawn]})
    else:
        for path in [*drawn, *([page] if page else [])]:
            typer.echo(f"{path}")
    failures.raise_all("the report")
    if only and not drawn and not json:
        print_note("these runs have no data for this figure.")


def read_runs(runs: Sequence[str], on_request: Sequence[str] = ()) -> tuple[pd.DataFrame, pd.DataFrame, list[dict[str, Any]]]:
    """The table, the series and the manifests of runs, with these metrics and series computed on request."""
    from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, concat_tables
    from isoscope.metrics import curves
    from isoscope.runs.results import Results

    opened = [Results(run) for run in runs]
    # A name stands for a metric or for a series, and each is asked for from another table.
    known_series = {entry.name for entry in curves()}
    metrics = [name for name in on_request if name not in known_series]
    lines = [name for name in on_request if name in known_series]
    rows = [results.table(policy="every") for results in opened] + [results.table(metrics, "every") for results in opened if metrics]
    points = [results.series() for results in opened] + [results.series(lines) for results in opened if lines]
    # A number that the run holds and that was also computed on request is there twice.
    table = concat_tables(rows, TABLE_COLUMNS).drop_duplicates(ignore_index=True)
    series = concat_tables(points, SERIES_COLUMNS).drop_duplicates(ignore_index=True)
    return table, series, [manifest for results in opened for manifest in results.manifests()]
