"""isoscope report"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def run(
    runs: Annotated[list[str], typer.Argument(metavar="RUN", help="One or more runs; they share a page.")],
    out: Annotated[str, typer.Option(help="The page.")] = "report.html",
    figures: Annotated[str | None, typer.Option(help="A folder for the same figures as SVG, PDF and PNG.")] = None,
    title: Annotated[str | None, typer.Option(help="The page's title.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the paths as JSON.")] = False,
) -> None:
    """One self-contained page: what was found in plain sentences, profiles, spectra, the table and how each number was made.

    **Examples**

    `isoscope report runs/bert runs/gpt2 --out both.html`

    `isoscope report runs/bert --figures figures/`
    """
    from isoscope.core.errors import IsoscopeError
    from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, stacked
    from isoscope.engine.results import Results
    from isoscope.report import write_figures, write_report

    opened = [Results(run) for run in runs]
    table = stacked([results.table() for results in opened], TABLE_COLUMNS).drop_duplicates(ignore_index=True)
    series = stacked([results.series() for results in opened], SERIES_COLUMNS).drop_duplicates(ignore_index=True)
    try:
        page = write_report(table, series, [manifest for results in opened for manifest in results.manifests()], Path(out), title=title)
        drawn = write_figures(table, series, Path(figures)) if figures else []
    except OSError as error:
        raise IsoscopeError(f"Cannot write {error.filename or out}: {error.strerror or error}.") from error
    if json:
        from json import dumps

        typer.echo(dumps({"page": str(page), "figures": [str(path) for path in drawn]}))
        return
    for path in drawn:
        typer.echo(f"{path}")
    typer.echo(f"{page}")
