"""isoscope table"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    import pandas as pd


def run(
    path: Annotated[str, typer.Argument(metavar="RUN", help="A run's folder.")],
    metric: Annotated[
        list[str] | None,
        typer.Option(
            help="Only this metric, or with --series this series; may be repeated. Computed from stored statistics where it is not there."
        ),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(help="Which tokens count: all (the default), no-special, body, a part that was split off, or every for all of these."),
    ] = None,
    convention: Annotated[
        list[str] | None,
        typer.Option(
            help="The layers as a source would have measured them: ethayarajh2019, godey2024, razzhigaev2024, rankme or isoscope."
        ),
    ] = None,
    format: Annotated[str, typer.Option(help="csv, json or parquet.")] = "csv",
    json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    series: Annotated[bool, typer.Option("--series", help="The series (spectra, histograms) instead of the numbers.")] = False,
    out: Annotated[str | None, typer.Option(help="A file; standard output otherwise.")] = None,
) -> None:
    """A run as one tidy table, one row per number.

    **Examples**

    `isoscope table runs/bert --metric mean_cosine --policy body`

    `isoscope table runs/bert --policy every`

    `isoscope table runs/bert --series --metric gride_scales`

    `isoscope table runs/bert --convention ethayarajh2019`

    `isoscope table runs/bert --format parquet --out bert.parquet`
    """
    from isoscope.core.errors import IsoscopeError, nearest
    from isoscope.engine.results import Results

    kind = "json" if json else format
    if kind not in ("csv", "json", "parquet"):
        raise IsoscopeError(f"--format must be csv, json or parquet; got {kind!r}{nearest(kind, ['csv', 'json', 'parquet']) or '.'}")
    if series and policy:
        raise IsoscopeError("--policy chooses numbers, and --series has all of them; leave it out.")
    if convention and (metric or policy or series):
        raise IsoscopeError("A --convention says itself which metrics and which tokens; leave out --metric, --policy and --series.")
    results = Results(path)
    if convention:
        from isoscope.engine.conventions import conventions_rows

        frame = conventions_rows(results, convention)
    else:
        frame = results.series(metric or None) if series else results.table(metric or None, policy or "all")
    if kind == "parquet" and out is None and sys.stdout.isatty():
        raise IsoscopeError("Parquet is not for a terminal; say --out FILE.parquet.")
    try:
        if kind == "parquet":
            frame.to_parquet(out if out is not None else sys.stdout.buffer, index=False)
        elif kind == "json":
            _write_json(frame, out)
        else:
            frame.to_csv(out if out is not None else sys.stdout, index=False)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise IsoscopeError(f"Cannot write {out or 'to standard output'}: {error.strerror or error}.") from error


def _write_json(frame: pd.DataFrame, out: str | None) -> None:
    """A list of rows with every digit, which pandas' own writer does not keep; what is not a number is null."""
    import numpy as np

    from isoscope.core.bounded import strict_json

    plain = frame.replace([np.inf, -np.inf], np.nan).astype(object)
    text = strict_json(plain.where(plain.notna(), None).to_dict("records")) + "\n"
    if out is None:
        sys.stdout.write(text)
    else:
        with open(out, "w", encoding="utf-8") as file:
            file.write(text)
