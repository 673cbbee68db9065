"""isoscope verify"""

from __future__ import annotations

from typing import Annotated

import typer


def run(
    path: Annotated[str, typer.Argument(metavar="RUN", help="A run's folder.")],
    json: Annotated[bool, typer.Option("--json", help="Print what was found as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Check every cell of a run against its manifest, and say what to do about what is wrong.

    Sizes, hashes, the columns of the tables, every statistic, versions, and what a process that was killed left behind. Nothing is
    changed. The exit code is 1 where something is wrong; what is only left over is said and is not wrong.

    **Examples**

    `isoscope verify runs/bert`

    `isoscope verify runs/bert --json`
    """
    from dataclasses import asdict
    from pathlib import Path

    from isoscope.core.errors import IsoscopeError
    from isoscope.core.printable import plain
    from isoscope.engine.progress import Progress
    from isoscope.store.verify import cells_in, is_run, size_of, verify

    folder = Path(path)
    if not is_run(folder):
        raise IsoscopeError(f"{path} is no run: it has no folder called cells; isoscope measure MODEL --out {path} makes one.")
    with Progress(quiet=quiet).bar("verifying", size_of(folder), "bytes") as bar:
        found = list(verify(folder, bar.advance))
    wrong = [one for one in found if one.wrong]
    cells = len(cells_in(folder))
    if json:
        from json import dumps

        typer.echo(dumps({"run": str(folder), "cells": cells, "good": not wrong, "found": [asdict(one) for one in found]}, indent=1))
    else:
        for one in found:
            typer.echo(plain(str(one) if one.wrong else f"note: {one}"))
        counted = f"{cells} cell{'' if cells == 1 else 's'}"
        typer.echo(f"{counted}: {len(wrong)} fault{'' if len(wrong) == 1 else 's'}." if wrong else f"{counted}: all as written.")
    if wrong:
        raise typer.Exit(1)
