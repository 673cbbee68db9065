"""isoscope conventions"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    import pandas as pd

    from isoscope.engine.conventions import Answer

WIDTH = 110
"""Of the tables where there is no terminal."""
BESIDE = 6
"""So many numbers stand beside each other in eighty columns."""


def run(
    path: Annotated[str, typer.Argument(metavar="RUN|MATRIX", help="A run's folder, or a .npy, .npz, .safetensors or .parquet file.")],
    convention: Annotated[
        list[str] | None,
        typer.Option(help="Only this one: ethayarajh2019, godey2024, razzhigaev2024, rankme or isoscope; may be repeated."),
    ] = None,
    key: Annotated[str | None, typer.Option(help="Which array of a file that holds several, or which column.")] = None,
    sample: Annotated[int, typer.Option(min=0, help="Of a matrix: points that drawings are made from.")] = 4096,
    allow_wide: Annotated[bool, typer.Option("--allow-wide", help="Take a matrix with more columns than rows.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Every number as JSON.")] = False,
) -> None:
    """The same cloud as each source would have measured it: which number is whose, and how far they lie apart.

    **Examples**

    `isoscope conventions runs/bert`

    `isoscope conventions vectors.npy --convention ethayarajh2019 --convention godey2024`
    """
    from isoscope.engine.conventions import conventions_rows, of_matrix
    from isoscope.engine.results import Results

    if Path(path).is_dir() or not Path(path).exists():
        rows = conventions_rows(Results(path), convention or None)
        _write(_records(rows)) if json else _show_run(rows)
        return
    found = of_matrix(path, convention or None, key=key, sample=sample, allow_wide=allow_wide)
    if json:
        _write([answer.as_dict() for answer in found])
        return
    typer.echo(f"{path}: {max(answer.number.n for answer in found):,} points in {found[0].number.d:,} dimensions")
    _show(_matrix_table(found))
    _explain([answer.convention.name for answer in found], layers=False)


def _write(records: list[dict[Any, Any]]) -> None:
    from isoscope.core.bounded import strict_json

    sys.stdout.write(strict_json(records) + "\n")


def _records(rows: pd.DataFrame) -> list[dict[Any, Any]]:
    plain = rows.astype(object)
    return plain.where(plain.notna(), None).to_dict("records")


def _matrix_table(found: list[Answer]) -> Any:
    """One row a question and convention, those that answer the same question below each other."""
    from rich import box
    from rich.table import Table

    from isoscope.core.convention import QUESTIONS

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for name in ("question", "convention", "value", "95 %", "how"):
        table.add_column(name, justify="right" if name in ("value", "95 %") else "left", no_wrap=name not in ("how", "question"))
    for question, title in QUESTIONS.items():
        for i, answer in enumerate(answer for answer in found if answer.reading.question == question):
            x = answer.number
            interval = "" if x.low != x.low else f"{x.low:.3g} … {x.high:.3g}"
            table.add_row(title if i == 0 else "", answer.convention.name, f"{float(x):.4g}", interval, answer.reading.said)
    return table


def _show_run(rows: pd.DataFrame) -> None:
    """A table a network and stack: a row a layer, a column a number, those of one question beside each other."""
    units = rows[["model", "step", "seed", "stack"]].astype("string").fillna("")
    for (model, step, seed, stack), own in rows.groupby([units[name] for name in units], sort=False):
        more = [f"{word} {value}" for word, value in (("step", step), ("seed", seed)) if value]
        typer.echo(" · ".join([str(model), *more, str(stack)]))
        for table in _run_tables(own):
            _show(table)
    _explain([str(name).partition("@")[2] for name in rows["metric"].unique()], layers=True)


def _run_tables(rows: pd.DataFrame) -> Iterator[Any]:
    """The questions beside each other as long as they fit, then the next below."""
    from isoscope.core.convention import CONVENTIONS, QUESTIONS

    there = set(rows["metric"])
    columns: list[tuple[str, str, str]] = []
    for question in QUESTIONS:
        asked = [(one.name, read.metric) for one in CONVENTIONS.values() for read in one.readings if read.question == question]
        named = [(question, name, f"{metric or question}@{name}") for name, metric in asked]
        own = [column for column in named if column[2] in there]
        if columns and len(columns) + len(own) > BESIDE:
            yield _run_table(rows, columns)
            columns = []
        columns += own
    if columns:
        yield _run_table(rows, columns)


def _run_table(rows: pd.DataFrame, columns: list[tuple[str, str, str]]) -> Any:
    from rich import box
    from rich.table import Table

    values = {(int(row["layer"]), row["metric"]): row["value"] for row in rows.to_dict("records")}
    normed = set(rows.loc[rows["kind"].eq("final"), "layer"])
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("layer", justify="right", no_wrap=True)
    for i, (question, name, _) in enumerate(columns):
        table.add_column(f"{question if i == 0 or columns[i - 1][0] != question else ''}\n{_short(name)}", justify="right", no_wrap=True)
    for layer in sorted({layer for layer, _ in values}):
        numbers = (_number(values.get((layer, metric), float("nan"))) for _, _, metric in columns)
        table.add_row("final" if layer in normed else str(layer), *numbers)
    return table


def _short(name: str) -> str:
    """A convention's name without its year, for the head of a column.

    >>> _short("ethayarajh2019"), _short("rankme")
    ('ethayarajh', 'rankme')
    """
    return name.rstrip("0123456789")


def _number(x: float) -> str:
    return "" if x != x else f"{x:.3f}" if abs(x) < 10 else f"{x:.1f}"


def _show(table: Any) -> None:
    from rich.console import Console

    console = Console(markup=False, emoji=False, highlight=False)
    console.width = console.width if console.is_terminal else WIDTH
    console.print(table)


def _explain(names: list[str], *, layers: bool) -> None:
    """What each convention leaves open and what was chosen; of a run also which tokens and which last layer it takes."""
    from rich.console import Console

    from isoscope.core.convention import CONVENTIONS

    console = Console(markup=False, emoji=False, highlight=False)
    console.width = console.width if console.is_terminal else WIDTH
    for name in dict.fromkeys(names):
        one = CONVENTIONS[name]
        where = f" Tokens {one.policy}, the last layer {'after' if one.final else 'before'} the final norm." if layers else ""
        console.print(f"{name}:{where} Left open: {one.leaves_open}. Here: {one.chosen}.")
