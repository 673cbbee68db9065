"""How a run shows itself: a summary at a prompt or in a notebook, a table of layers by metrics, and rows without their settings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd

from isoscope.core.number import Number
from isoscope.core.text_table import align_table, html_table
from isoscope.core.wording import format_count, format_list, format_runs, plain, short_site_name
from isoscope.estimation.metric import Question
from isoscope.metrics import registry
from isoscope.runs.stored_cell import Cell
from isoscope.trust.safe_io import parse_object

PLACE = ["model", "revision", "step", "seed", "stack", "kind", "layer", "head", "policy"]
"""The columns that name a row of the wide table."""
HEAD = ["model", "measured", "layers", "data"]
NEXT = 'table("mean_cosine"), to_frame(wide=True), plot("mean_cosine"), series(), statistics()'
WORDS = ("note", "verdict", "cell")
"""What the settings of a row say about its own number."""
KEPT = ("note", "cell")
"""Those that rows have in every run."""
SHOWN = 12
"""Models of a run that are listed, and metrics that are named."""


def without_settings(table: pd.DataFrame) -> pd.DataFrame:
    """Rows with the words on the number and the key of the cell, in place of the settings, which a run stores once per cell."""
    known = {text: parse_object(text) for text in table["spec"].unique()}
    columns = {name: table["spec"].map({text: spec.get(name) for text, spec in known.items()}).astype("string") for name in WORDS}
    return table.drop(columns="spec").assign(**{name: own for name, own in columns.items() if name in KEPT or own.notna().any()})


def order_metrics(names: Iterable[str]) -> list[str]:
    """Metrics in the order of docs/metrics.md, by question; those that are not installed come last."""

    def place(name: str) -> tuple[object, ...]:
        if name not in registry:
            return (1, name)
        entry = registry[name]
        return (0, list(Question).index(entry.question), *entry.position)

    return sorted(set(names), key=place)


def widen(table: pd.DataFrame) -> pd.DataFrame:
    """One row per place and one column per metric, which holds the values."""
    places = table[PLACE].drop_duplicates().reset_index(drop=True)
    numbered = places.assign(place=range(len(places)))
    # Missing steps, seeds, layers and heads are equal to each other here, as pandas has it in a merge.
    rows = table.merge(numbered, on=PLACE, how="left")
    wide = rows.drop_duplicates(["place", "metric"]).set_index(["place", "metric"])["value"].unstack("metric")  # noqa: PD010
    columns = order_metrics(map(str, wide.columns))
    return places.join(wide[columns]).rename_axis(columns=None)


def divide_by_d(table: pd.DataFrame) -> pd.DataFrame:
    """Rows with values, intervals and nulls as shares of the dimension."""
    width = table["d"].astype("float64")
    return table.assign(**{name: table[name] / width for name in ("value", "low", "high", "null", "null_sd")})


def row_number(row: dict[Any, Any]) -> Number:
    """The number that a row of a table holds."""
    n, d = (0 if pd.isna(row[name]) else int(row[name]) for name in ("n", "d"))
    return Number(row["value"], n=n, d=d, low=row["low"], high=row["high"], null=row["null"], null_sd=row["null_sd"])


def name_place(kind: Any, layer: Any, head: Any = None) -> str:
    """A site in a table that names its stack elsewhere.

    >>> name_place("hidden", 3), name_place("final", 7), name_place("query", 3, 2), name_place("hidden", pd.NA)
    ('3', 'final norm', 'query 3.2', 'all layers')
    """
    if kind == "hidden" and pd.isna(layer):
        return "all layers"
    name = short_site_name(kind, layer)
    if kind not in ("hidden", "final") and not pd.isna(layer):
        name = f"{name} {layer}"
    return name if pd.isna(head) else f"{name}.{head}"


def name_network(row: dict[Any, Any]) -> str:
    """A model with its step and seed, if it has them.

    >>> name_network({"model": "decoder", "step": 800, "seed": pd.NA})
    'decoder · step 800'
    """
    return " · ".join([str(row["model"]), *(f"{word} {row[word]}" for word in ("step", "seed") if not pd.isna(row[word]))])


def summarise(path: str, cells: list[Cell]) -> tuple[str, list[list[str]], str]:
    """What a run holds: a line with its size, the cells of a table of its models, and a line with its metrics."""
    by_model: dict[str, list[Cell]] = {}
    for cell in cells:
        by_model.setdefault(str(cell.manifest["columns"].get("model")), []).append(cell)
    rows = [[plain(model), *_describe_cells(own)] for model, own in list(by_model.items())[:SHOWN]]
    if len(by_model) > SHOWN:
        rows.append([f"and {len(by_model) - SHOWN} more", "", "", ""])
    first = cells[0].rows() if cells else None
    names = [] if first is None else order_metrics(map(str, first["metric"].unique()))
    size = f"Run {plain(path)}: {format_count(len(by_model), 'model')}, {format_count(len(cells), 'cell')}"
    return size, rows, f"{format_count(len(names), 'metric')}: {format_list(names, SHOWN)}" if names else "No metrics yet"


def _describe_cells(cells: list[Cell]) -> list[str]:
    """How often a model was measured, in which layers, and on what."""
    manifest = cells[0].manifest
    columns, spec = [cell.manifest["columns"] for cell in cells], manifest.get("spec", {})
    steps = sorted({own["step"] for own in columns if own.get("step") is not None})
    seeds = {own["seed"] for own in columns if own.get("seed") is not None}
    measured = f"step {steps[0]:,}" if steps else "once"
    if len(steps) > 1:
        measured = f"{len(steps)} steps {steps[0]:,}–{steps[-1]:,}"
    measured += f", {len(seeds)} seeds" if len(seeds) > 1 else ""
    places = cells[0].rows()[["stack", "kind", "layer"]].drop_duplicates()
    layers = []
    for stack, own in places.groupby("stack", sort=False):
        hidden = own.loc[own["kind"].eq("hidden"), "layer"].dropna()
        final = " and final norm" if own["kind"].eq("final").any() else ""
        layers.append(f"{stack} {format_runs(map(int, hidden))}{final}" if len(hidden) else str(stack))
    counted = str(spec.get("counted", "points"))
    amount = f"{spec['tokens']:,} {counted} of " if isinstance(spec.get("tokens"), int) else ""
    return [measured, plain("; ".join(layers)), plain(f"{amount}{spec.get('data', '')}")]


def summary_text(path: str, cells: list[Cell]) -> str:
    """The summary of a run at a prompt."""
    size, rows, metrics = summarise(path, cells)
    return "\n".join([size, *([align_table(HEAD, rows, left=len(HEAD))] if rows else []), metrics, f"Next: {NEXT}"])


def summary_html(path: str, cells: list[Cell]) -> str:
    """The summary of a run in a notebook."""
    from html import escape

    size, rows, metrics = summarise(path, cells)
    table = html_table(HEAD, rows, left=len(HEAD))
    return f"<p><b>{escape(size)}</b></p>{table}<p>{escape(metrics)}</p><p>Next: <code>{escape(NEXT)}</code></p>"
