"""isoscope verify"""

from __future__ import annotations

import typer

from isoscope.console.arguments import Json, Quiet, RunFolder
from isoscope.console.output import print_json, suggest_reading
from isoscope.core.wording import format_count


def run(path: RunFolder, json: Json = False, quiet: Quiet = False) -> None:
    """Check every cell of a run against its manifest, and say how to fix each fault.

    Checks sizes, hashes, the columns of the tables, every statistic, versions, and files that a killed process left behind. Changes
    nothing. The exit code is 1 if there is a fault; leftover files are reported, but are no fault.

    **Examples**

    `isoscope verify runs/bert`

    `isoscope verify runs/bert --json`
    """
    from dataclasses import asdict
    from pathlib import Path

    from isoscope.core.errors import IsoscopeError
    from isoscope.core.progress import Progress
    from isoscope.core.wording import plain
    from isoscope.runs.verify import cells_in, is_run, size_of, verify

    folder = Path(path)
    if not is_run(folder):
        raise IsoscopeError(f"{path} is not a run: it has no folder called cells. isoscope measure MODEL --out {path} makes one.")
    with Progress(quiet=quiet).bar("verifying", size_of(folder), "bytes") as bar:
        remarks = list(verify(folder, bar.advance))
    faults = [remark for remark in remarks if remark.wrong]
    cells = len(cells_in(folder))
    if json:
        print_json({"run": str(folder), "cells": cells, "good": not faults, "found": [asdict(remark) for remark in remarks]})
    else:
        for remark in remarks:
            typer.echo(plain(str(remark) if remark.wrong else f"note: {remark}"))
        typer.echo(f"{format_count(cells, 'cell')}: {format_count(len(faults), 'fault') if faults else 'no faults'}.")
        if not faults and not quiet:
            suggest_reading(path)
    if faults:
        raise typer.Exit(1)
