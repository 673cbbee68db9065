"""isoscope reproduce"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from isoscope.engine.reproduce import Reproduction


def run(
    paper: Annotated[str, typer.Argument(metavar="PAPER", help="godey2024 or razzhigaev2024.")],
    models: Annotated[
        str, typer.Option(help="embedded (they come with isoscope), local (in --folder), or paper (the paper's own, from a hub).")
    ] = "embedded",
    data: Annotated[
        list[str] | None,
        typer.Option(
            help="embedded, paper (the paper's own, from a hub), or sources as `isoscope measure --data` takes them; may be repeated."
        ),
    ] = None,
    figure: Annotated[str | None, typer.Option(help="Only what this figure needs, and only this figure: 11, 12a, profiles.")] = None,
    folder: Annotated[str, typer.Option(help="Where the models of `--models local` lie.")] = ".cache/models",
    max_items: Annotated[int | None, typer.Option(help="Documents, clips or images of each model.")] = None,
    threads: Annotated[int | None, typer.Option(help="Threads on the CPU; all of them by default.")] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda, mps or xpu.")] = None,
    engine: Annotated[str, typer.Option(help="Who measures: local (processes of this machine) or ray (a cluster).")] = "local",
    address: Annotated[str | None, typer.Option(help="Of a Ray cluster that is there already; one is started here by default.")] = None,
    processes: Annotated[int | None, typer.Option(help="Cells measured side by side.")] = None,
    out: Annotated[str | None, typer.Option(help="The run's folder; what it already holds is not computed again. reproduce-PAPER.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")] = False,
    json: Annotated[bool, typer.Option("--json", help="End with what came of it as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Carry out a paper: every figure and every claim, on models that come with isoscope, on those at hand, or on the paper's own.

    What cannot be had is listed with the reason and the command that would get it.

    **Examples**

    `isoscope reproduce godey2024`

    `isoscope reproduce razzhigaev2024 --models local --folder models/ --max-items 100`

    `isoscope reproduce godey2024 --models paper --data paper --figure 13`
    """
    from dataclasses import replace

    from isoscope.core.errors import IsoscopeError
    from isoscope.core.extras import require_extra
    from isoscope.engine.executor import Engine
    from isoscope.engine.reproduce import Request, plan_reproduction, reproduce
    from isoscope.papers import papers

    chosen, place = papers[paper], Path(out or f"reproduce-{paper}")
    asked = Request.from_options(
        models=models, data=data, figure=figure, folder=folder, max_items=max_items, threads=threads, device=device
    )
    asked = replace(asked, engine=Engine(engine, address, processes))
    if figure is not None:
        chosen.figure(figure)
    if dry_run:
        parts, absent = plan_reproduction(chosen, asked, place)
        for part in parts:
            typer.echo(f"{part.command}  # {'models at hand' if part.kind == 'model' and models == 'local' else part.experiment.says}")
        for one in absent:
            typer.echo(f"cannot be had: {one.what}: {one.reason}; {one.command}")
        return
    require_extra("report", "isoscope reproduce")
    found = reproduce(paper, place, asked, quiet=quiet)
    try:
        written = _write(found, place, figure)
    except OSError as error:
        raise IsoscopeError(f"Cannot write {error.filename or place}: {error.strerror or error}.") from error
    if json:
        _print_json(found, written)
        return
    _print(found)
    for path in written:
        typer.echo(f"{path}")


def _write(found: Reproduction, place: Path, figure: str | None) -> list[Path]:
    """The page beside the run; of one figure alone its files."""
    from isoscope.engine.results import Results
    from isoscope.report import write_figures, write_report

    table, series = found.tables
    if figure is not None:
        return write_figures(table, series, place / "figures", names=found.paper.figure(figure).draws)
    page = place.with_name(place.name + ".html")
    return [write_report(table, series, Results(place).manifests(), page, title=f"{found.paper.title}, reproduced")]


def _print(found: Reproduction) -> None:
    for one in found.outcomes:
        name = f"Figure {one.figure.number}" if one.figure.number[0].isdigit() else one.figure.number
        typer.echo(f"{name}: {one.figure.shows}{'' if one.drawn else ': not drawn: ' + one.reason}")
    for absent in found.missing:
        typer.echo(f"cannot be had: {absent.what}: {absent.reason} ({absent.command})", err=True)


def _print_json(found: Reproduction, written: list[Path]) -> None:
    from dataclasses import asdict
    from json import dumps

    figures = [{"number": one.figure.number, "shows": one.figure.shows, "drawn": one.drawn, "reason": one.reason} for one in found.outcomes]
    absent = [asdict(one) for one in found.missing]
    typer.echo(
        dumps({"run": str(found.run), "figures": figures, "absent": absent, "written": [str(path) for path in written]}, ensure_ascii=False)
    )
