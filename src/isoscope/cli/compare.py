"""isoscope compare"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    import pandas as pd

    from isoscope.engine.comparison import Comparison

WIDTH = 100
"""Of the tables where there is no terminal."""
NOTE = (
    "Differences are B − A with 95 % intervals. Paired: the same documents are left out, or drawn, of both runs at once; unpaired: from "
    "the intervals of both. A place moved where p is below 0.05 by Holm's adjustment over the places of its metric."
)


def run(
    run_a: Annotated[str, typer.Argument(metavar="RUN_A", help="The run to compare with.")],
    run_b: Annotated[str, typer.Argument(metavar="RUN_B", help="The run whose change is asked for.")],
    metric: Annotated[
        list[str] | None,
        typer.Option(help="A metric, or NAME/d for it over the dimension; may be repeated. [between_cosine, top_share, effective_rank/d]"),
    ] = None,
    policy: Annotated[str, typer.Option(help="all, no-special, body, or a part that was split off.")] = "all",
    model: Annotated[
        list[str] | None,
        typer.Option(help="NAME_A=NAME_B: this model of A with that of B, NAME@STEP for one step of it; may be repeated.", metavar="A=B"),
    ] = None,
    fail_over: Annotated[
        float | None, typer.Option(min=0.0, help="Exit with 1 if a difference is surely larger than this, whatever its sign.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Every number as JSON.")] = False,
) -> None:
    """What changed between two runs, layer by layer, with intervals over documents; for continuous integration with --fail-over.

    **Examples**

    `isoscope compare runs/base runs/tuned`

    `isoscope compare runs/before runs/after --policy body --metric between_cosine --fail-over 0.05`

    `isoscope compare runs/all runs/all --model bert-base=untrained:bert-base --json`

    `isoscope compare runs/suite runs/suite --model decoder@0=decoder@800`
    """
    from isoscope.engine.comparison import compare
    from isoscope.engine.results import Results

    found = compare(Results(run_a), Results(run_b), metric=metric or None, policy=policy, models=_pairs(model or []))
    over = None if fail_over is None else found.rows_beyond(fail_over)
    if json:
        _write(found, over)
    else:
        _show(found, over, fail_over)
    if over is not None and len(over):
        raise typer.Exit(1)


def _pairs(words: list[str]) -> dict[str, str]:
    """`A=B` as {A: B}."""
    from isoscope.core.errors import IsoscopeError

    for word in words:
        if word.count("=") != 1 or word.startswith("=") or word.endswith("="):
            raise IsoscopeError(f"--model takes two names, as in bert-base=bert-tuned; got {word!r}.")
    return {first: second for first, _, second in (word.partition("=") for word in words)}


def _write(found: Comparison, over: pd.DataFrame | None) -> None:
    from isoscope.core.bounded import strict_json

    answer: dict[str, Any] = {"sentences": found.sentences, "differ": found.differ, "refused": found.refused, "rows": _records(found.rows)}
    if over is not None:
        answer["over"] = _records(over)
    sys.stdout.write(strict_json(answer) + "\n")


def _records(rows: pd.DataFrame) -> list[dict[Any, Any]]:
    plain = rows.astype(object)
    return plain.where(plain.notna(), None).to_dict("records")


def _show(found: Comparison, over: pd.DataFrame | None, limit: float | None) -> None:
    from rich.console import Console

    console = Console(markup=False, emoji=False, highlight=False)
    console.width = console.width if console.is_terminal else WIDTH
    for sentence in found.sentences + found.refused:
        console.print(sentence)
    if found.differ:
        named = ", ".join(f"{name} ({a}, {b})" for name, (a, b) in found.differ.items())
        console.print(f"Besides the weights the runs differ in {named}.")
    for (first, second, metric), own in found.rows.groupby(["model_a", "model_b", "metric"], sort=False):
        console.print()
        console.print(_table(f"{metric}: {first}" + (f" → {second}" if first != second else ""), own))
    console.print(NOTE)
    if over is not None:
        console.print(_verdict(over, limit or 0.0))


def _verdict(over: pd.DataFrame, limit: float) -> str:
    """What `--fail-over` found, in one sentence."""
    if over.empty:
        return f"No difference is surely larger than {limit:g}."
    worst = max(over.to_dict("records"), key=lambda row: float(row["least"]))
    where = f"{worst['metric']} at {_place(worst)}"
    return f"{len(over)} differences are surely larger than {limit:g}, most of all that of {where}, by {worst['least']:.3g} or more."


def _table(title: str, rows: pd.DataFrame) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("place", overflow="fold")
    for name in ("A", "B", "difference", "95 % interval"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("how", no_wrap=True)
    table.add_column("moved", no_wrap=True)
    for row in rows.to_dict("records"):
        interval = "" if row["low"] != row["low"] else f"{row['low']:+.4f} … {row['high']:+.4f}"
        moved = ("up" if row["difference"] > 0 else "down") if row["moved"] else ""
        table.add_row(_place(row), f"{row['a']:.4f}", f"{row['b']:.4f}", f"{row['difference']:+.4f}", interval, row["how"], moved)
    return table


def _place(row: Any) -> str:
    """A site in few words."""
    import pandas as pd

    kind = "" if row["kind"] == "hidden" else f" {row['kind']}"
    return f"{row['stack']}{kind}" + ("" if pd.isna(row["layer"]) else f" {row['layer']}")
