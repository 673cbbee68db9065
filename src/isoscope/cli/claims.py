"""isoscope claims"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from isoscope.report.claims import VerdictRow

WIDTH = 110
"""Of the table where there is no terminal, and at most."""
NOTE = (
    "A claim holds, or fails, only where the whole 95 % interval lies on one side of a threshold that was fixed beforehand; of sentences "
    "about many models the effect is the part of them that it is true of."
)


def run(
    runs: Annotated[list[str], typer.Argument(metavar="RUN", help="One or more runs; they are read together.")],
    paper: Annotated[str | None, typer.Option(help="Only the claims of one paper: godey2024 or razzhigaev2024.")] = None,
    also: Annotated[
        list[str] | None, typer.Option(help="A metric that is computed only on request, from what the runs kept; may be repeated.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 where a claim fails; an error always does.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Every claim, verdict and finding as JSON.")] = False,
) -> None:
    """What the papers claim, and whether it holds here: verdict, effect with its interval, and what it was tried on.

    **Examples**

    `isoscope claims runs/zoo runs/suite`

    `isoscope claims runs/shape --paper razzhigaev2024 --also local_share_excess --also local_isoscore_excess`

    `isoscope claims runs/zoo --strict`
    """
    from isoscope.core.failures import Failures
    from isoscope.core.table import SERIES_COLUMNS, TABLE_COLUMNS, stacked
    from isoscope.engine.results import Results
    from isoscope.papers import claims
    from isoscope.report.claims import verdict_rows

    claims(paper)  # a paper that is not known is said before anything is read
    opened = [Results(run) for run in runs]
    rows = [results.table(policy="every") for results in opened] + [results.table(list(also), "every") for results in opened if also]
    table = stacked(rows, TABLE_COLUMNS).drop_duplicates(ignore_index=True)
    failures = Failures()
    found = verdict_rows(table, stacked([results.series() for results in opened], SERIES_COLUMNS), paper, failures)
    if json:
        from dataclasses import asdict
        from json import dumps

        typer.echo(dumps([asdict(row) for row in found], indent=1, ensure_ascii=False))
    else:
        from rich.console import Console

        console = Console(markup=False, emoji=False, highlight=False)
        console.width = min(WIDTH, console.width) if console.is_terminal else WIDTH
        _print(console, found)
    failures.raise_all("the verdicts")
    if strict and any(row.outcome == "fails" for row in found):
        raise typer.Exit(1)


def _print(console: Console, found: list[VerdictRow]) -> None:
    """The table of the claims that something speaks to, a sentence on each of them that fails or is undecided, and what the others need."""
    from rich import box
    from rich.table import Table

    styles = {"holds": "green", "fails": "red", "undecided": "", "error": "bold red"}
    tried = [row for row in found if row.findings or row.outcome == "error"]
    rest = [row for row in found if row not in tried]
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("claim", no_wrap=False, overflow="fold", ratio=1)
    table.add_column("verdict", no_wrap=True)
    table.add_column("effect", no_wrap=True)
    table.add_column("tried on", overflow="fold", max_width=16)
    for row in tried:
        table.add_row(row.number, row.statement, row.outcome, row.effect, row.tried_on, style=styles[row.outcome])
    if tried:
        console.print(table)
    for row in sorted((row for row in tried if row.outcome != "holds"), key=lambda row: ["error", "fails", "undecided"].index(row.outcome)):
        console.print(f"{row.number} {row.name}, {row.outcome}: {row.said}", style=styles[row.outcome])
    if rest:
        console.print(f"\n{len(rest)} of {len(found)} claims were not tried, so that they are undecided:")
    for said in dict.fromkeys(row.said for row in rest):
        console.print(f"{', '.join(f'{row.number} {row.name}' for row in rest if row.said == said)}: {said}")
    console.print(f"\n{NOTE}")
