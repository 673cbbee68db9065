"""isoscope report"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from isoscope.console.arguments import RunFolders
from isoscope.console.output import print_json, print_next_steps, print_note, write_errors_as_user_errors

if TYPE_CHECKING:
    import pandas as pd


def run(
    runs: RunFolders,
    out: Annotated[str, typer.Option(help="The file of the page.")] = "report.html",
    figures: Annotated[str | None, typer.Option(help="A folder for the same figures as SVG, PDF and PNG.")] = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="With --figures: write only this figure, and no page; may be repeated.")
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            help="A metric or series that is computed only on request; with --only layer_profile, the metrics to draw, each as a figure of "
            "its own for a paper. May be repeated."
        ),
    ] = None,
    width: Annotated[
        str | None,
        typer.Option(
            metavar="LENGTH", help="With --only layer_profile --metric: the width of the figure, as 3.25in (the default) or 86mm."
        ),
    ] = None,
    title: Annotated[str | None, typer.Option(help="The title of the page.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the paths as JSON.")] = False,
) -> None:
    """Write one self-contained page: findings in plain sentences, profiles, spectra, the table, and how each number was made.

    **Examples**

    `isoscope report runs/bert runs/gpt2 --out both.html`

    `isoscope report runs/bert --figures figures/`

    `isoscope report runs/bert --only layer_profile --metric mean_cosine --width 86mm --figures figures/`

    `isoscope report runs/bert --metric local_share --metric local_share_excess --metric gride_scales`
    """
    from isoscope.core.errors import Failures, IsoscopeError, require_extra
    from isoscope.figures import figures as known
    from isoscope.report import write_figures, write_report

    if only and not figures:
        raise IsoscopeError("--only chooses figures to write as files; name a folder for them with --figures FOLDER.")
    plotted = only == ["layer_profile"] and bool(metric)
    if width and not plotted:
        raise IsoscopeError("--width is that of the figures of single metrics; it needs --only layer_profile --metric NAME.")
    for name in only or []:
        known[name]  # refuses an unknown name before anything is read
    require_extra("report", "isoscope report")
    table, series, manifests = read_runs(runs, metric or [])
    failures = Failures()
    with write_errors_as_user_errors(out):
        if plotted and figures:
            drawn = _plot_metrics(table, metric or [], Path(figures), width or "3.25in", title or "")
        else:
            drawn = write_figures(table, series, Path(figures), names=only, failures=failures) if figures else []
        page = None if only else write_report(table, series, manifests, Path(out), title=title, failures=failures)
    if json:
        print_json({"page": page and str(page), "figures": [str(path) for path in drawn]})
    else:
        for path in [*drawn, *([page] if page else [])]:
            typer.echo(f"{path}")
        if page:
            quoted = " ".join(map(shlex.quote, runs))
            print_next_steps(
                (f"open {shlex.quote(str(page))} in a browser", "it needs no network"),
                (f"isoscope serve {quoted}", "the same page, kept up to date while the run grows"),
            )
    failures.raise_all("the report")
    if only and not drawn and not json:
        print_note("these runs have no data for this figure.")


def _plot_metrics(table: pd.DataFrame, metrics: Sequence[str], folder: Path, width: str, title: str) -> list[Path]:
    """Each metric over the layers as `run.plot` draws it, in every format, under the token policy of all tokens."""
    from isoscope.charts.metric_plot import plot_metric
    from isoscope.core.model_groups import select_one_checkpoint
    from isoscope.metrics import registry

    shown, _ = select_one_checkpoint(table[table["policy"] == "all"], table.head(0))
    # A run may hold metrics of a plug-in that is not installed here.
    labels = {metric: registry[metric].title if metric in registry else metric for metric in metrics}
    plots = {metric: plot_metric(shown, metric, label=label, width=width, title=title) for metric, label in labels.items()}
    return [plot.save(folder / f"{metric}.{form}") for metric, plot in plots.items() for form in ("svg", "pdf", "png")]


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
