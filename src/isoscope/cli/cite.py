"""isoscope cite"""

from __future__ import annotations

import shlex

import typer

from isoscope.console.arguments import Json, RunFolder
from isoscope.console.output import print_json, print_next_steps


def run(path: RunFolder, json: Json = False) -> None:
    """Print a methods paragraph with the settings of a run, and BibTeX for isoscope, the papers and the sources of the metrics.

    **Example**

    `isoscope cite runs/bert > methods.txt`
    """
    from isoscope.runs.citation import citation
    from isoscope.runs.results import Results

    cited = citation(Results(path))
    if json:
        print_json({"methods": cited.methods, "bibtex": cited.entries})
        return
    typer.echo(" ".join(cited.methods))
    for entry in cited.entries.values():
        typer.echo(f"\n{entry}")
    print_next_steps((f"isoscope report {shlex.quote(path)} --figures figures/", "the charts for the paper, as SVG, PDF and PNG"))
