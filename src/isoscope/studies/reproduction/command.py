"""isoscope reproduce"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from isoscope.console.arguments import Address, Executor, Quiet, Threads
from isoscope.console.output import print_json, write_errors_as_user_errors

if TYPE_CHECKING:
    from isoscope.studies.reproduction.reproduce import Reproduction

VERB = "reproduce"


def run(
    paper: Annotated[str, typer.Argument(metavar="PAPER", help="godey2024 or razzhigaev2024.")],
    models: Annotated[
        str,
        typer.Option(
            help="The models: embedded (shipped with isoscope), packages (real ones from package registries), local (in --folder) or "
            "paper (the paper's own, from a hub)."
        ),
    ] = "embedded",
    data: Annotated[
        list[str] | None,
        typer.Option(
            help="The data: embedded, paper (the paper's own, from a hub), or sources as in `isoscope measure --data`; may be repeated. "
            "Default: embedded, and with --models packages what suits each model."
        ),
    ] = None,
    figure: Annotated[str | None, typer.Option(help="Reproduce only this figure: 11, 12a, profiles; 12 is 12a and 12b.")] = None,
    folder: Annotated[str | None, typer.Option(help="The folder of the models, with --models local.")] = None,
    max_items: Annotated[int | None, typer.Option(help="Documents, clips or images per model.")] = None,
    threads: Threads = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda, mps or xpu.")] = None,
    executor: Executor = "local",
    address: Address = None,
    processes: Annotated[int | None, typer.Option(help="Cells measured in parallel.")] = None,
    out: Annotated[
        str | None, typer.Option(help="The folder of the run, whose cells are not computed again. Default: reproduce-PAPER.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the commands that would run, and stop.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON when done.")] = False,
    quiet: Quiet = False,
) -> None:
    """Reproduce a paper: every figure and every claim, on models that ship with isoscope, on other real ones, or on the paper's own.

    Models and data that are not available are listed with the reason and the command that would fetch them.

    **Examples**

    `isoscope reproduce godey2024`

    `isoscope reproduce godey2024 --models packages --max-items 32`

    `isoscope reproduce razzhigaev2024 --models local --folder models/ --max-items 100`

    `isoscope reproduce godey2024 --models paper --data paper --figure 13`
    """
    from isoscope.claims import papers
    from isoscope.core.errors import require_extra
    from isoscope.measuring.scheduler import Engine
    from isoscope.studies.reproduction.reproduce import Request, plan_reproduction, reproduce

    folder_of_run = Path(out or f"reproduce-{paper}")
    given = {"max_items": max_items, "threads": threads, "device": device}
    options = {name: value for name, value in given.items() if value is not None}
    sources = tuple(data) if data else None
    request = Request(models, sources, figure, folder, options, Engine(executor, address, processes))
    request.figures_of(papers[paper])  # refuses an unknown figure before anything is measured
    if dry_run:
        parts, absent = plan_reproduction(papers[paper], request, folder_of_run)
        for part in parts:
            found = part.kind == "model" and models in ("local", "packages")
            typer.echo(f"{part.command}  # {f'models: {models}' if found else part.experiment.about}")
        for item in absent:
            typer.echo(f"not available: {item.what}: {item.reason}; {item.command}")
        return
    require_extra("report", "isoscope reproduce")
    reproduction = reproduce(paper, folder_of_run, request, quiet=quiet)
    with write_errors_as_user_errors(folder_of_run):
        written = _write_figures_or_page(reproduction, folder_of_run, figure)
    if json:
        _print_json(reproduction, written)
        return
    _print_outcome(reproduction)
    for path in written:
        typer.echo(f"{path}")


def _write_figures_or_page(reproduction: Reproduction, folder: Path, figure: str | None) -> list[Path]:
    """Write the page next to the run, or the files of a single figure."""
    from isoscope.report import write_figures, write_report
    from isoscope.runs.results import Results

    table, series = reproduction.tables
    if figure is not None:
        return write_figures(table, series, folder / "figures", names=[name for shown in reproduction.figures for name in shown.draws])
    page = folder.with_name(folder.name + ".html")
    title, paper = f"{reproduction.paper.title}, reproduced", reproduction.paper.name
    return [write_report(table, series, Results(folder).manifests(), page, title=title, paper=paper)]


def _print_outcome(reproduction: Reproduction) -> None:
    for shown in reproduction.outcomes:
        figure = shown.figure
        name = f"Figure {figure.number}" if figure.number[0].isdigit() else figure.number
        typer.echo(f"{name}: {figure.shows}{'' if shown.drawn else ': not drawn: ' + shown.reason}")
    for item in reproduction.missing:
        typer.echo(f"not available: {item.what}: {item.reason} ({item.command})", err=True)


def _print_json(reproduction: Reproduction, written: list[Path]) -> None:
    from dataclasses import asdict

    figures = [
        {"number": shown.figure.number, "shows": shown.figure.shows, "drawn": shown.drawn, "reason": shown.reason}
        for shown in reproduction.outcomes
    ]
    absent = [asdict(item) for item in reproduction.missing]
    print_json({"run": str(reproduction.run), "figures": figures, "absent": absent, "written": [str(path) for path in written]})
