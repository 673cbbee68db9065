"""isoscope report"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from isoscope.console.arguments import OnRequest, RunFolders
from isoscope.console.output import print_json, print_note, write_errors_as_user_errors


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
    from isoscope.cli.run_tables import read_runs
    from isoscope.core.errors import IsoscopeError
    from isoscope.core.extras import require_extra
    from isoscope.core.failures import Failures
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
