"""isoscope merge"""

from __future__ import annotations

from typing import Annotated

import typer


def run(
    runs: Annotated[list[str], typer.Argument(metavar="RUN", help="Runs that hold the shards.")],
    out: Annotated[str, typer.Option(help="The folder of the merged run.")],
    json: Annotated[bool, typer.Option("--json", help="End with the run's cells as JSON on standard output.")] = False,
) -> None:
    """Merge shards into the run that one pass would have given.

    **Example**

    `isoscope merge runs/part1 runs/part2 --out runs/whole`
    """
    from isoscope.engine.merging import merge

    results = merge(list(runs), out)
    if json:
        from json import dumps

        typer.echo(dumps({"run": str(results.path), "cells": results.manifests()}, ensure_ascii=False))
    else:
        typer.echo(f"{results.path}")
