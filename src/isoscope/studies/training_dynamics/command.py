"""isoscope dynamics"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from isoscope.console.arguments import Json, Policy, RunFolder
from isoscope.console.output import new_table, print_json, print_table, print_text, to_records
from isoscope.core.wording import format_change, format_number

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table

NOTE = (
    "cos² is the mean over heads of cos²(Q̄, K̄) at the last step, followed by its value for pairs of different heads, and its p over heads "
    "and seeds after Holm's adjustment over the layers. Same and opposite: heads whose cos(Q̄, K̄) clearly exceeds chance. Onsets (drift, "
    "sharp) are steps, medians over heads. Changes are from the first to the last step; a ? marks an interval that contains 0."
)
CHANGED = {"entropy": "attention_entropy", "cosine": "between_cosine", "top share": "top_share"}
"""The columns of changes, and their metrics."""

VERB = "dynamics"


def run(
    path: RunFolder,
    policy: Policy = "all",
    centred: Annotated[bool, typer.Option("--centred", help="Also compute trajectories around the mean of all steps.")] = False,
    json: Json = False,
) -> None:
    """Analyse how training moves the geometry: do queries and keys align, does attention sharpen, when, and do dimensions rise and fall?

    The results stay in the run, for its figures. They are computed again only after checkpoints were added.

    **Examples**

    `isoscope dynamics runs/suite`

    `isoscope dynamics runs/suite --policy body --json`
    """
    from isoscope.studies.training_dynamics.analysis import derived_cells, dynamics
    from isoscope.studies.training_dynamics.sentences import summarise_training

    tables = [cell.rows() for cell in derived_cells(dynamics(path, policy=policy, centred=centred))]
    if json:
        print_json([record for rows in tables for record in to_records(rows)])
        return
    for rows in tables:
        for stack in rows["stack"].dropna().unique():
            for table in _tables_of_layers(rows[rows["stack"].eq(stack)], f"{rows['model'].iloc[0]} · {stack}"):
                print_table(table)
        for topic, sentence in summarise_training(rows).items():
            print_text(f"· {topic}: {sentence}")
        print_text()
    print_text(NOTE)


def _tables_of_layers(rows: pd.DataFrame, name: str) -> Iterator[Table]:
    """One row per layer: a table of queries, keys and attention, and a table of changes; without empty rows."""
    layers = {layer: rows[rows["layer"].eq(layer)] for layer in sorted(rows["layer"].dropna().unique())}
    for title, show in (("queries and keys", _show_heads), ("changes", _show_changes)):
        shown = {layer: cells for layer, own in layers.items() if any((cells := show(own)).values())}
        if shown:
            columns = ["layer", *next(iter(shown.values()))]
            table = new_table(columns, title=f"{name}: {title}", words=("aligned", "rise, then fall"))
            for layer, cells in shown.items():
                table.add_row(str(layer), *cells.values())
            yield table


def _show_heads(own: pd.DataFrame) -> dict[str, str]:
    """Alignment, directions and onsets of the heads of one layer."""
    rows = {str(metric): of_metric for metric, of_metric in own.groupby("metric")}
    none = own.iloc[:0]
    last, p, drift = (rows.get(metric, none) for metric in ("alignment", "alignment_p", "onset_drift"))
    last = last[last["step"].eq(last["step"].max())]
    return {
        "cos²": _show_mean(last["value"]),
        "others": _show_mean(last["null"]),
        "p": _show_mean(p.sort_values("step").tail(1)["value"], digits=2),
        "aligned": _show_verdict(rows.get("alignment_change", none)),
        "same": _show_fraction(rows.get("same_direction_heads", none)),
        "opposite": _show_fraction(rows.get("opposite_direction_heads", none)),
        "drift": _show_step(drift[drift["head"].notna()]["value"]),
        "sharp": _show_step(rows.get("onset_sharpening", none)["value"]),
    }


def _show_changes(own: pd.DataFrame) -> dict[str, str]:
    """The changes of one layer from the first to the last step."""
    changes = {title: _show_change(own[own["metric"].eq(f"{metric}_change")]) for title, metric in CHANGED.items()}
    return changes | {"rise, then fall": _show_verdict(own[own["metric"].eq("rise_then_fall")])}


def _show_mean(values: pd.Series, digits: int = 3) -> str:
    return format_number(values.mean(), missing="", digits=digits) if len(values) else ""


def _show_fraction(rows: pd.DataFrame) -> str:
    """A fraction of heads, as in 3/12."""
    return "" if rows.empty else f"{round(rows['value'].iloc[0] * rows['n'].iloc[0])}/{rows['n'].iloc[0]}"


def _show_change(rows: pd.DataFrame) -> str:
    """A change, with a question mark if its interval contains 0."""
    change = format_change(rows["value"].iloc[0]) if len(rows) else ""
    return f"{change}?" if change not in ("", "0") and _show_verdict(rows) not in ("up", "down") else change


def _show_step(values: pd.Series) -> str:
    return f"{values.median():.0f}" if values.notna().any() else ""


def _show_verdict(rows: pd.DataFrame) -> str:
    from isoscope.studies.training_dynamics.step_charts import read_verdict

    return "" if rows.empty else read_verdict(rows["spec"].iloc[0])
