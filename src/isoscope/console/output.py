"""Output: every verb prints its tables, text, JSON and notes, and writes its tables to files, through this module."""

from __future__ import annotations

import contextlib
import re
import shlex
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from isoscope.core.text_table import WIDTH
from isoscope.core.wording import plain

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console
    from rich.table import Column, Table

    from isoscope.runs.results import Results

LONGEST_WORD = 25
"""A longer word may be broken in a table."""
NARROWEST = 12
"""A column of text is at least this wide, if it has words as long; where even so a table is too wide, shorter words are broken, too."""


def print_json(value: Any, *, indent: int | None = 1) -> None:
    """Print JSON; numbers that JSON cannot express are null."""
    from isoscope.trust.safe_io import to_strict_json

    typer.echo(to_strict_json(value, indent=indent))


def to_records(frame: pd.DataFrame) -> list[dict[Any, Any]]:
    """The rows of a table for JSON, with None for what is missing or infinite."""
    import numpy as np

    # As objects, because a column of floats or of Int64 would turn None back into its own missing value.
    cells = frame.replace([np.inf, -np.inf], np.nan).astype(object)
    return cells.where(cells.notna(), None).to_dict("records")


def write_frame(frame: pd.DataFrame, form: str, out: str | None) -> None:
    """Write a table as csv, json or parquet to the file `out`, or to standard output. JSON is a list of rows with every digit."""
    with write_errors_as_user_errors(out or "to standard output"):
        if form == "parquet":
            frame.to_parquet(sys.stdout.buffer if out is None else out, index=False)
        elif form == "csv":
            frame.to_csv(sys.stdout if out is None else out, index=False)
        else:
            from isoscope.trust.safe_io import to_strict_json

            # pandas' own writer of JSON rounds to 15 digits at most.
            text = to_strict_json(to_records(frame)) + "\n"
            if out is None:
                sys.stdout.write(text)
            else:
                Path(out).write_text(text, "utf-8")


def print_note(text: str) -> None:
    """Print a note on standard error, where it disturbs neither results nor progress bars."""
    typer.echo(plain(f"isoscope: note: {text}"), err=True)


def print_text(text: str = "", *, style: str = "") -> None:
    """Print a paragraph, wrapped to the width of the terminal."""
    _console().print(text, style=style)


def new_table(columns: Iterable[str], *, title: str = "", text: Collection[str] = (), words: Collection[str] = ()) -> Table:
    """A table of numbers, whose cells are never broken, but for the columns `text`, which wrap, and `words`, which are left-aligned."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, title=title or None, title_justify="left", padding=(0, 1, 0, 0), pad_edge=False)
    for name in columns:
        table.add_column(name, justify="left" if name in (*text, *words) else "right", no_wrap=name not in text, overflow="fold")
    return table


def print_table(table: Table) -> None:
    """Print a table in the width of the terminal, without its empty columns.

    Columns that do not fit become a second table below, which repeats the columns that name the rows and leaves out rows without a cell
    there. No number is ever cut: a column that is wider than the terminal is printed in its full width.
    """
    console = _console()
    columns = [i for i, column in enumerate(table.columns) if not table.rows or any(str(cell).strip() for cell in column.cells)]
    least, natural = zip(*map(_column_widths, table.columns), strict=True) if table.columns else ((), ())
    parts = _split_columns(table, columns, least, console.width)
    repeated = set.intersection(*map(set, parts)) if len(parts) > 1 else set()
    if table.title:  # rich would wrap it at the width of the table
        console.print(str(table.title), style="italic")
    for chosen in parts:
        part = _select_columns(table, chosen, repeated)
        # Rich would shrink columns below their longest word, and cut numbers.
        own = _narrow_text([least[j] for j in chosen], [table.columns[j].no_wrap for j in chosen], console.width)
        needed = _table_width(own)
        # The remaining width is shared in proportion to what each column lacks.
        spare = max(0, console.width - needed)
        wanted = sum(natural[j] for j in chosen) - sum(own)
        for column, j, width in zip(part.columns, chosen, own, strict=True):
            column.width = natural[j] if wanted <= spare else width + spare * (natural[j] - width) // wanted
        width, console.width = console.width, max(console.width, needed)
        console.print(part)
        console.width = width


def _column_widths(column: Column) -> tuple[int, int]:
    """The least width of a column, at which no number and no short word is broken, and the width that it would like."""
    from rich.cells import cell_len

    lines = [line for cell in (column.header, *column.cells) for line in str(cell).splitlines()]
    # The first word of a line cannot be wrapped away from the indentation before it.
    words = [word for line in lines for word in re.findall(r"^\s*\S+|\S+", line)]
    natural = max(map(cell_len, lines), default=1)
    return natural if column.no_wrap else min(LONGEST_WORD, max(map(cell_len, words), default=1)), natural


def _narrow_text(least: list[int], fixed: list[bool], width: int) -> list[int]:
    """The least widths, with the widest columns of text made narrower until the table fits.

    >>> _narrow_text([25, 30, 20], [False, True, False], 70), _narrow_text([25, 30], [False, True], 40)
    ([16, 30, 17], [12, 30])
    """
    least = list(least)
    while _table_width(least) > width:
        texts = [i for i, never in enumerate(fixed) if not never and least[i] > NARROWEST]
        if not texts:
            break
        least[max(texts, key=lambda i: least[i])] -= 1
    return least


def _table_width(widths: Iterable[int]) -> int:
    """The width of a table: each column has a blank and a divider, and the table an edge."""
    return sum(width + 2 for width in widths) + 1


def _split_columns(table: Table, columns: list[int], least: Sequence[int], width: int) -> list[list[int]]:
    """The columns of each part of a table that is too wide. All parts begin with the columns that name the rows."""
    named = [i for i in columns if table.columns[i].justify == "left"]
    keys = [i for place, i in enumerate(columns) if place == 0 or columns[: place + 1] == named[: place + 1]]
    others = [i for i in columns if i not in keys]
    if not others or _table_width(least[i] for i in columns) <= width:
        return [columns]
    parts = [[*keys, others[0]]]
    for i in others[1:]:
        if _table_width(least[j] for j in [*parts[-1], i]) <= width:
            parts[-1].append(i)
        else:
            parts.append([*keys, i])
    return parts


def _select_columns(table: Table, columns: list[int], repeated: set[int]) -> Table:
    """A table with some of the columns of another, and with the rows that have a cell there besides those that are repeated."""
    part = new_table([])
    for i in columns:
        column = table.columns[i]
        part.add_column(column.header, justify=column.justify, no_wrap=column.no_wrap, overflow=column.overflow)
    cells = [list(table.columns[i].cells) for i in columns]
    others = [list(column.cells) for i, column in enumerate(table.columns) if i not in {*columns, *repeated}]
    elsewhere = {at for own in others for at, cell in enumerate(own) if str(cell).strip()}
    for at, (row, values) in enumerate(zip(table.rows, zip(*cells, strict=True), strict=True)):
        here = any(str(value).strip() for i, value in zip(columns, values, strict=True) if i not in repeated)
        if repeated and not here and at in elsewhere:
            continue
        part.add_row(*values, style=row.style, end_section=row.end_section)
    return part


def print_next_steps(*steps: tuple[str, str]) -> None:
    """Print on standard error what to do next: commands, each with what it is for."""
    width = max(len(command) for command, _ in steps)
    # Long commands, with the paths of users in them, stand on a line of their own.
    lines = [f"  {command:{width}}  {purpose}" if width < 48 else f"  {command}\n      {purpose}" for command, purpose in steps]
    typer.echo("\n".join(["Next:", *map(plain, lines)]), err=True)


def _console() -> Console:
    from rich.console import Console

    # Names in a run are shown as they are: none of them is markup, an emoji code or a number to be coloured.
    console = Console(markup=False, emoji=False, highlight=False)
    console.width = console.width if console.is_terminal else WIDTH
    return console


@contextlib.contextmanager
def write_errors_as_user_errors(path: str | Path) -> Iterator[None]:
    """Report that a file, or something in the folder `path`, cannot be written; a closed pipe is no error."""
    from isoscope.core.errors import IsoscopeError

    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise IsoscopeError(f"Cannot write {error.filename or path}: {error.strerror or error}.") from error


def print_run(results: Results, *, as_json: bool, quiet: bool = False) -> None:
    """Print the folder of a run, or its cells as JSON; and what to do with a run, unless `quiet`."""
    if as_json:
        print_json({"run": str(results.path), "cells": results.manifests()}, indent=None)
        return
    typer.echo(f"{results.path}")
    if not quiet:
        suggest_reading(str(results.path))


def suggest_reading(path: str, *more: tuple[str, str]) -> None:
    """Print how a run is read: the table, the page, and more commands."""
    run = shlex.quote(path)
    print_next_steps(
        (f"isoscope table {run} --wide", "the numbers, layer by layer"), (f"isoscope report {run} --out report.html", "the charts"), *more
    )
