"""isoscope cite"""

from __future__ import annotations

from typing import Annotated

import typer


def run(
    path: Annotated[str, typer.Argument(metavar="RUN", help="A run's folder.")],
    json: Annotated[bool, typer.Option("--json", help="The sentences and the entries as JSON.")] = False,
) -> None:
    """How to cite a run: a methods paragraph with what moves its numbers, and BibTeX of isoscope, the papers and the metrics' sources.

    **Example**

    `isoscope cite runs/bert > methods.txt`
    """
    from isoscope.engine.citation import citation
    from isoscope.engine.results import Results

    found = citation(Results(path))
    if json:
        from json import dumps

        typer.echo(dumps({"methods": found.methods, "bibtex": found.entries}, indent=1, ensure_ascii=False))
        return
    typer.echo(" ".join(found.methods))
    for entry in found.entries.values():
        typer.echo(f"\n{entry}")
