"""The rows of a run as readable tables: the layers below each metric, or layers as rows and metrics as columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer

from isoscope.console.output import new_table, print_table, print_text
from isoscope.core.wording import format_number, plain

if TYPE_CHECKING:
    import pandas as pd

ISOTROPIC = "isotropic"


def print_rows(table: pd.DataFrame, *, wide: bool = False) -> None:
    """Print the rows of a run, one table per model, checkpoint, stack and token policy."""
    if table.empty:
        print_text("No rows.")
    for title, rows in _by_network(table):
        print_text(title)
        (_print_wide if wide else _print_long)(rows)


def _by_network(table: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    from isoscope.runs.result_views import name_network

    revisions = table.groupby("model")["revision"].nunique(dropna=False)
    for _, rows in table.groupby(["model", "revision", "step", "seed", "stack", "policy"], sort=False, dropna=False):
        first = rows.iloc[0].to_dict()
        network = name_network(first)
        if revisions[first["model"]] > 1:
            network += f" @ {first['revision']}"
        sizes = [f"{name} = {_format_range(rows[name])}" for name in ("n", "d") if rows[name].notna().any()]
        yield " · ".join([network, str(first["stack"]), f"tokens: {first['policy']}", *sizes]), rows


def _format_range(values: pd.Series) -> str:
    low, high = int(values.min()), int(values.max())
    return f"{low:,}" if low == high else f"{low:,}–{high:,}"


def _print_long(rows: pd.DataFrame) -> None:
    """One row per number, with its interval and its null, below the name of its metric."""
    from isoscope.runs.matrix_geometry import align_numbers, number_cells
    from isoscope.runs.result_views import name_place, order_metrics, row_number

    groups = {}
    for metric in order_metrics(rows["metric"]):
        own = rows[rows["metric"] == metric].to_dict("records")
        groups[metric] = [[f"  {name_place(row['kind'], row['layer'], row['head'])}", *number_cells(row_number(row))] for row in own]
    typer.echo()
    for line in align_numbers(["  layer", "value", "95 % interval", ISOTROPIC], groups):
        typer.echo(plain(line))
    typer.echo()


def _print_wide(rows: pd.DataFrame) -> None:
    """One row per layer and one column per metric; the last row holds the values under isotropy."""
    from isoscope.runs.result_views import name_place, order_metrics

    metrics = order_metrics(rows["metric"])
    places: dict[str, dict[str, str]] = {}
    for row in rows.to_dict("records"):
        place = name_place(row["kind"], row["layer"], row["head"])
        places.setdefault(place, {})[str(row["metric"])] = format_number(row["value"], missing="–")
    layers = rows[rows["kind"].isin(["hidden", "final"])]  # an embedding table has another n, and so other nulls
    nulls = [_format_null(layers.loc[layers["metric"] == name, "null"]) for name in metrics]
    # A name of several words takes several lines, so that its column is as narrow as its numbers.
    table = new_table(["layer", *(name.replace("_", "_\n") for name in metrics)], words=("layer",))
    for place, values in places.items():
        table.add_row(place, *(values.get(name, "") for name in metrics))
    if any(nulls):
        table.add_row(ISOTROPIC, *nulls, style="italic")
    print_table(table)


def _format_null(values: pd.Series) -> str:
    """The null of a metric if it looks the same in every layer, else its range."""
    shown = list(dict.fromkeys(format_number(value) for value in sorted(values.dropna())))
    return (" to " if shown and shown[0].startswith("-") else "–").join(dict.fromkeys([*shown[:1], *shown[-1:]]))
