"""isoscope merge"""

from __future__ import annotations

from typing import Annotated

import typer

from isoscope.console.arguments import JsonCells
from isoscope.console.output import print_run


def run(
    runs: Annotated[list[str], typer.Argument(metavar="RUN", help="The runs that hold the shards.")],
    out: Annotated[str, typer.Option(help="The folder of the merged run.")],
    partial: Annotated[
        bool,
        typer.Option("--partial", help="Merge the shards that are there into one cell without tables, to be merged with the rest later."),
    ] = False,
    json: JsonCells = False,
) -> None:
    """Merge shards into one run, equal to the run of a single pass.

    **Example**

    `isoscope merge runs/part1 runs/part2 --out runs/whole`

    `isoscope merge runs/part{1..16} --partial --out runs/first16`
    """
    from isoscope.runs.merging import merge

    print_run(merge(list(runs), out, partial=partial), as_json=json)
