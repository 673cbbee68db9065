"""isoscope drift"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    import pandas as pd

NARROW, WIDTH = 78, 100
"""The table is as wide as a terminal within these limits, and as wide as it can be where there is none."""
NOTE = (
    "ρ, r and their p are as published, over layers as if they were independent: not a valid test. Δρ is Spearman's ρ between the "
    "differences of successive layers, p that of permuting them; verdicts are by Holm's adjustment over the models. Pooled: random "
    "effects over a group's models of 12 layers or more, with the 95 % interval of Δρ."
)


def run(
    path: Annotated[str, typer.Argument(metavar="RUN", help="A run's folder.")],
    policy: Annotated[str, typer.Option(help="all, no-special, body, or a part that was split off.")] = "all",
    json: Annotated[bool, typer.Option("--json", help="Every number as JSON.")] = False,
) -> None:
    """Do drift and cosine go together over the layers? By model and by group: the test as published, and one that is valid.

    **Examples**

    `isoscope drift runs/bert`

    `isoscope drift runs/all --policy body --json`
    """
    from isoscope.core.errors import IsoscopeError
    from isoscope.engine.results import Results

    found = Results(path).associations(policy)
    if found.empty:
        raise IsoscopeError(f"{path} has no model with layers; `isoscope drift` compares the hidden states of a model.")
    if json:
        from isoscope.core.bounded import strict_json

        plain = found.astype(object)
        sys.stdout.write(strict_json(plain.where(plain.notna(), None).to_dict("records")) + "\n")
        return
    from rich.console import Console

    console = Console(markup=False, emoji=False, highlight=False)
    console.width = max(NARROW, min(WIDTH, console.width)) if console.is_terminal else WIDTH
    for predictor, rows in found.groupby("predictor", sort=False):
        console.print(_table(str(predictor), rows, names=console.width - 75))
    console.print(NOTE)


def _table(predictor: str, rows: pd.DataFrame, *, names: int) -> Any:
    """The models of each group below its title, and what pooling them gives; `names` is the room that their names have."""
    from rich import box
    from rich.table import Table

    from isoscope.core.group import GROUPS

    title = f"{predictor} and mean_cosine over the layers"
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("model", overflow="fold", min_width=max(names, 11))
    for name in ("layers", "ρ", "p", "r", "p", "Δρ", "p"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", overflow="fold", min_width=11)
    for group, own in rows.groupby("group", sort=False):
        table.add_row(GROUPS[str(group)], style="bold")
        for row in own[own["model"].notna()].to_dict("records"):
            numbers = [_number(row[name]) for name in ("spearman", "spearman_p", "pearson", "pearson_p", "difference", "p")]
            table.add_row(f" {_name(row)}", str(row["layers"]), *numbers, row["verdict"])
        for row in own[own["model"].isna()].to_dict("records"):
            reach = "" if row["low"] != row["low"] else f"[{_number(row['low'])}, {_number(row['high'])}] "
            numbers = ["", "", "", "", "", _number(row["difference"]), _number(row["p"])]
            table.add_row(f" pooled over {row['models']}", *numbers, reach + row["verdict"], style="italic")
    return table


def _name(row: dict[Any, Any]) -> str:
    """A model with its step, where it has one, and its seed."""
    import pandas as pd

    more = [f"{word} {row[word]}" for word in ("step", "seed") if not pd.isna(row[word])]
    return " · ".join([str(row["model"]), *more])


def _number(x: float) -> str:
    """Three digits, or nothing where there is no number.

    >>> [_number(x) for x in (0.5, -0.04321, 0.00004, float("nan"))]
    ['0.500', '-0.043', '4e-05', '']
    """
    if x != x:
        return ""
    return f"{x:.3f}" if abs(x) >= 0.0005 or x == 0 else f"{x:.0e}"
