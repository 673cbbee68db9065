"""isoscope merge"""

from __future__ import annotations

from typing import Annotated

import typer

from isoscope.console.arguments import JsonCells
from isoscope.console.output import print_run


def run(
    runs: Annotated[list[str], typer.Argument(metavar="RUN", help="The runs that hold the shards.")],
    out: Annotated[str, typer.Option(help="The folder of the merged run.")],
    json: JsonCells = False,
) -> None:
    """Merge shards into one run, equal to the run of a single pass.

    **Example**

    `isoscope merge runs/part1 runs/part2 --out runs/whole`
    """
    from isoscope.runs.merging import merge

    print_run(merge(list(runs), out), as_json=json)
