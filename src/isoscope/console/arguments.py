"""Arguments and options that several verbs share."""

from __future__ import annotations

from typing import Annotated

import typer

RunFolder = Annotated[str, typer.Argument(metavar="RUN", help="The folder of a run.")]
RunFolders = Annotated[list[str], typer.Argument(metavar="RUN", help="One or more runs, which are read together.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
JsonCells = Annotated[bool, typer.Option("--json", help="Print the run's cells as JSON when done.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
Policy = Annotated[str, typer.Option(help="Which tokens count: all, no-special, body, or a part that was split off.")]
Threads = Annotated[int | None, typer.Option(help="CPU threads. Default: all.")]
Executor = Annotated[str, typer.Option(help="Where to measure: local (processes on this machine) or ray (a cluster).")]
Address = Annotated[str | None, typer.Option(help="Address of an existing Ray cluster. Default: start a local one.")]
RunOut = Annotated[str, typer.Option(help="The folder of the run. Cells that it already holds are not computed again.")]
TextColumn = Annotated[str | None, typer.Option(help="The field of a .jsonl or .parquet file that holds the text.")]
ArrayKey = Annotated[str | None, typer.Option(help="The array to read from a file that holds several, or the column.")]
AllowWide = Annotated[bool, typer.Option("--allow-wide", help="Accept a matrix with more columns than rows.")]
Seed = Annotated[int, typer.Option(help="Seed of the random draws.")]
OnRequest = Annotated[
    list[str] | None,
    typer.Option(help="A metric or series that is computed only on request, from the statistics in the run; may be repeated."),
]
CONVENTIONS = "ethayarajh2019, godey2024, razzhigaev2024, rankme or isoscope"
