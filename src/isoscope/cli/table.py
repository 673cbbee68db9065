"""isoscope table"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from isoscope.console.arguments import CONVENTIONS, RunFolder
from isoscope.console.output import print_next_steps, write_frame

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
        typer.Option(help=f"Measure the layers as this source would: {CONVENTIONS}.", metavar="SOURCE"),
    ] = None,
    series: Annotated[bool, typer.Option("--series", help="The series (spectra, histograms) instead of the numbers.")] = False,
    wide: Annotated[bool, typer.Option("--wide", help="Layers as rows and metrics as columns.")] = False,
    out: Annotated[str | None, typer.Option(help="The file to write: .csv, .json or .parquet.", metavar="FILE")] = None,
    format: Annotated[
        str | None, typer.Option(help="csv, json or parquet. Default: by the name of --out, a readable table in a terminal, or else csv.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> None:
    """Show the numbers of a run: a readable table in a terminal, CSV with every digit if it is piped or written to a file.

    **Examples**

    `isoscope table runs/bert --wide`

    `isoscope table runs/bert --metric mean_cosine --policy body`

    `isoscope table runs/bert > bert.csv`

    `isoscope table runs/bert --policy every --out bert.parquet`

    `isoscope table runs/bert --series --metric gride_scales`

    `isoscope table runs/bert --convention ethayarajh2019`
    """
    from isoscope.core.errors import IsoscopeError, nearest
    from isoscope.runs.result_views import widen, without_settings
    from isoscope.runs.results import Results

    form = _choose_format("json" if json else format, out)
    if form is not None and form not in FORMATS:
        raise IsoscopeError(f"--format must be csv, json or parquet; got {form!r}{nearest(form, FORMATS) or '.'}")
    if series and policy:
        raise IsoscopeError("--policy has no effect on --series, which contains every policy; leave it out.")
    if wide and (series or convention):
        raise IsoscopeError("--wide arranges the metrics of a run; leave out --series and --convention.")
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
    if form is None and not series:
        from isoscope.console.run_table import print_rows

        print_rows(frame, wide=wide)
        _suggest(path, wide=wide)
        return
    frame = widen(frame) if wide else without_settings(frame) if "spec" in frame else frame
    write_frame(frame, form or "csv", out)


def _choose_format(given: str | None, out: str | None) -> str | None:
    """The format that was asked for, or that the name of the file says; None is a readable table."""
    from isoscope.core.errors import IsoscopeError

    if given is not None:
        return given
    if out is not None:
        ending = Path(out).suffix.lower().removeprefix(".")
        if ending and ending not in FORMATS:
            raise IsoscopeError(f"--out must end in .csv, .json or .parquet; {out} ends in .{ending}: choose one, or name a --format.")
        return ending or "csv"
    return None if sys.stdout.isatty() else "csv"


def _suggest(path: str, *, wide: bool) -> None:
    run = shlex.quote(path)
    steps = [(f"isoscope table {run} --wide", "layers as rows, metrics as columns")] * (not wide)
    steps += [(f"isoscope table {run} --out table.csv", "every digit"), (f"isoscope report {run} --out report.html", "the charts")]
    print_next_steps(*steps)
