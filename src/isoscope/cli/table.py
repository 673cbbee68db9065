"""isoscope table"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from isoscope.console.arguments import CONVENTIONS, RunFolder
from isoscope.console.output import write_frame

FORMATS = ["csv", "json", "parquet"]


def run(
    path: RunFolder,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            help="Only this metric, or with --series this series; may be repeated. Computed from stored statistics if the run lacks it."
        ),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(help="Which tokens count: all (the default), no-special, body, a part that was split off, or every for all of them."),
    ] = None,
    convention: Annotated[
        list[str] | None,
        typer.Option(help=f"Measure the layers as this source would: {CONVENTIONS}."),
    ] = None,
    format: Annotated[str, typer.Option(help="csv, json or parquet.")] = "csv",
    json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    series: Annotated[bool, typer.Option("--series", help="Print the series (spectra, histograms) instead of the numbers.")] = False,
    out: Annotated[str | None, typer.Option(help="The file to write. Default: standard output.")] = None,
) -> None:
    """Print a run as one tidy table, with one row per number.

    **Examples**

    `isoscope table runs/bert --metric mean_cosine --policy body`

    `isoscope table runs/bert --policy every`

    `isoscope table runs/bert --series --metric gride_scales`

    `isoscope table runs/bert --convention ethayarajh2019`

    `isoscope table runs/bert --format parquet --out bert.parquet`
    """
    from isoscope.core.errors import IsoscopeError, nearest
    from isoscope.runs.results import Results

    form = "json" if json else format
    if form not in FORMATS:
        raise IsoscopeError(f"--format must be csv, json or parquet; got {form!r}{nearest(form, FORMATS) or '.'}")
    if series and policy:
        raise IsoscopeError("--policy has no effect on --series, which contains every policy; leave it out.")
    if convention and (metric or policy or series):
        raise IsoscopeError("A --convention chooses metrics and tokens itself; leave out --metric, --policy and --series.")
    results = Results(path)
    if convention:
        from isoscope.studies.definitions.analysis import conventions_rows

        frame = conventions_rows(results, convention)
    else:
        frame = results.series(metric or None) if series else results.table(metric or None, policy or "all")
    if form == "parquet" and out is None and sys.stdout.isatty():
        raise IsoscopeError("Parquet cannot be shown in a terminal; name a file with --out FILE.parquet.")
    write_frame(frame, form, out)
