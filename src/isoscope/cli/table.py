"""isoscope table"""

from __future__ import annotations

import sys
from typing import Annotated

import typer


def run(
    path: Annotated[str, typer.Argument(metavar="RUN", help="A run's folder.")],
    metric: Annotated[
        list[str] | None, typer.Option(help="Only this metric; may be repeated. Computed from stored statistics where it is not there.")
    ] = None,
    policy: Annotated[str | None, typer.Option(help="all, no-special, body, or a part that was split off.")] = None,
    format: Annotated[str, typer.Option(help="csv, json or parquet.")] = "csv",
    json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    series: Annotated[bool, typer.Option("--series", help="The series (spectra, histograms) instead of the numbers.")] = False,
    out: Annotated[str | None, typer.Option(help="A file; standard output otherwise.")] = None,
) -> None:
    """A run as one tidy table, one row a number.

    **Examples**

    `isoscope table runs/bert --metric mean_cosine --policy body`

    `isoscope table runs/bert --format parquet --out bert.parquet`
    """
    from isoscope.core.errors import IsoscopeError, nearest
    from isoscope.engine.results import Results

    kind = "json" if json else format
    if kind not in ("csv", "json", "parquet"):
        raise IsoscopeError(f"--format must be csv, json or parquet; got {kind!r}{nearest(kind, ['csv', 'json', 'parquet']) or '.'}")
    if series and (metric or policy):
        raise IsoscopeError("--metric and --policy choose numbers, and --series is whole; leave them out.")
    results = Results(path)
    frame = results.series() if series else results.table(metric or None, policy)
    if kind == "parquet" and out is None and sys.stdout.isatty():
        raise IsoscopeError("Parquet is not for a terminal; say --out FILE.parquet.")
    try:
        if kind == "parquet":
            frame.to_parquet(out if out is not None else sys.stdout.buffer, index=False)
        elif kind == "json":
            frame.to_json(out if out is not None else sys.stdout, orient="records", lines=False, double_precision=15, force_ascii=False)
        else:
            frame.to_csv(out if out is not None else sys.stdout, index=False)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise IsoscopeError(f"Cannot write {out or 'to standard output'}: {error.strerror or error}.") from error
