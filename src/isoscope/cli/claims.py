"""isoscope claims"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from isoscope.console.arguments import Json, OnRequest, RunFolders
from isoscope.console.output import new_table, print_json, print_next_steps, print_table, print_text

if TYPE_CHECKING:
    from isoscope.report.paper_verdicts import VerdictRow

STYLES = {"error": "bold red", "fails": "red", "undecided": "", "holds": "green"}
NOTE = (
    "A claim holds, or fails, only if the whole 95 % interval lies on one side of a threshold that was fixed beforehand. For claims about "
    "many models, the effect is the fraction of models for which the claim holds."
)


def run(
    runs: RunFolders,
    paper: Annotated[str | None, typer.Option(help="Only the claims of one paper: godey2024 or razzhigaev2024.")] = None,
    metric: OnRequest = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 if a claim fails; an error always does.")] = False,
    json: Json = False,
) -> None:
    """Test the papers' claims: verdict, effect with its interval, and the models that each was tried on.

    **Examples**

    `isoscope claims runs/zoo runs/suite`

    `isoscope claims runs/shape --paper razzhigaev2024 --metric local_share_excess --metric local_isoscore_excess`

    `isoscope claims runs/zoo --strict`
    """
    from dataclasses import asdict

    from isoscope.claims import claims
    from isoscope.cli.report import read_runs
    from isoscope.core.errors import Failures
    from isoscope.report.paper_verdicts import explain_undecided, verdict_rows

    claims(paper)  # refuses an unknown paper before anything is read
    table, series, _ = read_runs(runs, metric or [])
    failures = Failures()
    verdicts = verdict_rows(table, series, paper, failures)
    if json:
        print_json([asdict(row) for row in verdicts])
    else:
        _print_verdicts(verdicts, explain_undecided(verdicts, table["model"].nunique()))
        print_next_steps((f"isoscope report {' '.join(map(shlex.quote, runs))} --out report.html", "the claims with their charts"))
    failures.raise_all("the verdicts")
    if strict and any(row.outcome == "fails" for row in verdicts):
        raise typer.Exit(1)


def _print_verdicts(verdicts: list[VerdictRow], too_few: str) -> None:
    """A table of the claims that were tested, a sentence on each that does not hold, and what the others need.

    `too_few` says once that there are too few models for some of them.
    """
    from isoscope.claims.verdicts import drop_too_few_units

    tested = [row for row in verdicts if row.findings or row.outcome == "error"]
    untested = [row for row in verdicts if row not in tested]
    table = new_table(["", "claim", "verdict", "effect", "tried on"], text=("claim", "tried on"), words=("verdict", "effect"))
    for row in tested:
        table.add_row(row.number, row.statement, row.outcome, row.effect, row.tried_on, style=STYLES[row.outcome])
    if tested:
        print_table(table)
    if too_few:
        print_text(f"{too_few}\n")
    for row in sorted(tested, key=lambda row: list(STYLES).index(row.outcome)):
        if row.outcome != "holds":
            said = drop_too_few_units(row.said) if too_few else row.said
            print_text(f"{row.number} {row.name}, {row.outcome}: {said}", style=STYLES[row.outcome])
    if untested:
        print_text(f"\n{len(untested)} of {len(verdicts)} claims were not tested and are therefore undecided:")
    for reason in dict.fromkeys(row.said for row in untested):
        print_text(f"{', '.join(f'{row.number} {row.name}' for row in untested if row.said == reason)}: {reason}")
    print_text(f"\n{NOTE}")
