"""isoscope compare-definitions"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from isoscope.console.arguments import CONVENTIONS as NAMES
from isoscope.console.arguments import AllowWide, ArrayKey, Json
from isoscope.console.output import new_table, print_json, print_table, print_text, to_records
from isoscope.core.wording import format_interval, format_number
from isoscope.studies.definitions.conventions import CONVENTIONS, QUESTIONS

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table

    from isoscope.studies.definitions.analysis import Answer

MOST_COLUMNS = 6
"""The most numbers that fit side by side in eighty columns."""

VERB = "compare-definitions"


def run(
    path: Annotated[str, typer.Argument(metavar="RUN|MATRIX", help="The folder of a run, or a .npy, .npz, .safetensors or .parquet file.")],
    convention: Annotated[list[str] | None, typer.Option(help=f"Only this source: {NAMES}; may be repeated.")] = None,
    key: ArrayKey = None,
    sample: Annotated[int, typer.Option(min=0, help="For a matrix, the number of sample points to draw from.")] = 4096,
    allow_wide: AllowWide = False,
    json: Json = False,
) -> None:
    """Measure the same cloud as each source would, to see how far definitions lie apart.

    **Examples**

    `isoscope compare-definitions runs/bert`

    `isoscope compare-definitions vectors.npy --convention ethayarajh2019 --convention godey2024`
    """
    from isoscope.runs.results import Results
    from isoscope.studies.definitions.analysis import conventions_rows, of_matrix

    if Path(path).is_dir() or not Path(path).exists():
        rows = conventions_rows(Results(path), convention or None)
        print_json(to_records(rows)) if json else _print_run(rows)
        return
    answers = of_matrix(path, convention or None, key=key, sample=sample, allow_wide=allow_wide)
    if json:
        print_json([answer.as_dict() for answer in answers])
        return
    typer.echo(f"{path}: {max(answer.number.n for answer in answers):,} points in {answers[0].number.d:,} dimensions")
    print_table(_table_of_matrix(answers))
    _explain([answer.convention.name for answer in answers], with_layers=False)


def _table_of_matrix(answers: list[Answer]) -> Table:
    """One row per question and source; answers to the same question stand below each other."""
    table = new_table(["question", "convention", "value", "95 % interval", "how"], text=("question", "how"), words=("convention",))
    for question, title in QUESTIONS.items():
        for i, answer in enumerate(answer for answer in answers if answer.reading.question == question):
            number = answer.number
            interval = format_interval(number.low, number.high)
            table.add_row(title if i == 0 else "", answer.convention.name, format_number(number), interval, answer.reading.how)
    return table


def _print_run(rows: pd.DataFrame) -> None:
    """Tables per model and stack, with one row per layer and the answers to a question side by side."""
    units = rows[["model", "step", "seed", "stack"]].astype("string").fillna("")
    for (model, step, seed, stack), own in rows.groupby([units[name] for name in units], sort=False):
        checkpoint = [f"{word} {value}" for word, value in (("step", step), ("seed", seed)) if value]
        typer.echo(" · ".join([str(model), *checkpoint, str(stack)]))
        for columns in _split_columns(set(own.loc[own["value"].notna(), "metric"])):
            print_table(_table_of_run(own, columns))
    _explain([str(name).partition("@")[2] for name in rows["metric"].unique()], with_layers=True)


def _split_columns(metrics: set[Any]) -> Iterator[list[tuple[str, str, str]]]:
    """Columns (question, source, metric) of each table: questions stand side by side as long as they fit."""
    columns: list[tuple[str, str, str]] = []
    for question in QUESTIONS:
        readings = [(source.name, reading) for source in CONVENTIONS.values() for reading in source.readings]
        named = [(question, name, f"{own.metric or question}@{name}") for name, own in readings if own.question == question]
        known = [column for column in named if column[2] in metrics]
        if columns and len(columns) + len(known) > MOST_COLUMNS:
            yield columns
            columns = []
        columns += known
    if columns:
        yield columns


def _table_of_run(rows: pd.DataFrame, columns: list[tuple[str, str, str]]) -> Table:
    values = {(int(row["layer"]), row["metric"]): row["value"] for row in rows.to_dict("records")}
    normed = set(rows.loc[rows["kind"].eq("final"), "layer"])
    # The year of a source does not fit; a question is named above the first of its columns.
    heads = [
        f"{question if i == 0 or columns[i - 1][0] != question else ''}\n{name.rstrip('0123456789')}"
        for i, (question, name, _) in enumerate(columns)
    ]
    table = new_table(["layer", *heads])
    for layer in sorted({layer for layer, _ in values}):
        numbers = (format_number(values.get((layer, metric), float("nan")), missing="") for _, _, metric in columns)
        table.add_row("final" if layer in normed else str(layer), *numbers)
    return table


def _explain(names: list[str], *, with_layers: bool) -> None:
    """What each source leaves open and what isoscope chose; for a run also its tokens and its last layer."""
    for name in dict.fromkeys(names):
        source = CONVENTIONS[name]
        layer = f" Tokens {source.policy}, the last layer {'after' if source.final else 'before'} the final norm." if with_layers else ""
        print_text(f"{name}:{layer} Left open: {source.leaves_open}. Here: {source.chosen}.")
