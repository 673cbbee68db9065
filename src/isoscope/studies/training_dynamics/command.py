"""isoscope dynamics"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from isoscope.console.arguments import Json, Policy, RunFolder
from isoscope.console.output import new_table, print_json, print_table, print_text, to_records
from isoscope.core.wording import format_estimate, format_number, format_numbered, format_p_value

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table

NOTE = (
    "cos² is the mean over heads of cos²(Q̄, K̄) at the last step, followed by its value for pairs of different heads, and its p over heads "
    "and seeds after Holm's adjustment over the layers. Same and opposite: heads whose cos(Q̄, K̄) clearly exceeds chance. Changes are from "
    "the first to the last step, with 95 % intervals over seeds, or over documents if there is one seed; a ? marks an interval that "
    "contains 0. Onsets (drift, sharp) are steps, medians over heads."
)

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

    tables = [cell.rows() for cell in derived_cells(dynamics(path, policy=policy, centred=centred))]
    if json:
        print_json([record for rows in tables for record in to_records(rows)])
        return
    for rows in map(_read_verdicts, tables):
        for stack in rows["stack"].dropna().unique():
            own = rows[rows["stack"].eq(stack)]
            print_table(_table_of_layers(own, f"{rows['model'].iloc[0]} · {stack}"))
            for sentence in _findings(own):
                print_text(f"· {sentence}")
            print_text()
    print_text(NOTE)


def _read_verdicts(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with the verdict and the note of their `spec` as columns."""
    from json import loads

    specs = [loads(spec) for spec in rows["spec"]]
    return rows.assign(verdict=[spec.get("verdict", "") for spec in specs], note=[spec.get("note", "") for spec in specs])


def _table_of_layers(rows: pd.DataFrame, title: str) -> Table:
    """One row per layer."""
    names = ["layer", "cos²", "others", "p", "aligned", "same", "opposite", "entropy", "cosine", "top share", "drift", "sharp", "dimension"]
    table = new_table(names, title=title, words=("aligned", "dimension"))
    for layer in sorted(rows["layer"].dropna().unique()):
        table.add_row(str(layer), *_cells_of_layer(rows[rows["layer"].eq(layer)]))
    return table


def _cells_of_layer(own: pd.DataFrame) -> list[str]:
    def of(metric: str) -> pd.DataFrame:
        return own[own["metric"].eq(metric)]

    last = of("alignment")
    last = last[last["step"].eq(last["step"].max())]
    p = of("alignment_p").sort_values("step").tail(1)
    drift = of("onset_drift")
    return [
        _show_mean(last["value"]),
        _show_mean(last["null"]),
        _show_mean(p["value"], digits=2),
        _show_verdict(of("alignment_change")),
        _show_fraction(of("same_direction_heads")),
        _show_fraction(of("opposite_direction_heads")),
        *(_show_change(of(f"{metric}_change")) for metric in ("attention_entropy", "between_cosine", "top_share")),
        _show_step(drift[drift["head"].notna()]["value"]),
        _show_step(of("onset_sharpening")["value"]),
        _show_verdict(of("rise_then_fall")),
    ]


def _findings(rows: pd.DataFrame) -> list[str]:
    """The findings about a stack as a whole, in sentences."""
    sentences = []
    stack = rows[rows["layer"].isna()]
    p = stack[stack["metric"].eq("alignment_p")].sort_values("step")
    if len(p):
        change = rows[rows["metric"].eq("alignment_change")]
        layers = format_numbered("layer", [int(layer) for layer in change[change["verdict"].eq("holds")]["layer"]])
        sentences.append(f"Alignment of Q̄ and K̄, all layers at once: {format_p_value(p['value'].iloc[-1])}. It holds in {layers}.")
    opposite = rows[rows["metric"].eq("opposite_direction_heads")]
    if len(opposite):
        layers = format_numbered("layer", [int(layer) for layer in opposite[opposite["value"].gt(0)]["layer"]])
        sentences.append(f"Heads in opposite directions, clearly beyond chance: {layers}.")
    for metric, words in (("same_direction", "the same direction"), ("opposite_direction", "opposite directions")):
        for _, row in rows[rows["metric"].eq(metric)].iterrows():
            sentences.append(f"Most in {words}: head {row['head']} of layer {row['layer']}, cos(Q̄, K̄) = {_show_estimate(row)}.")
    for metric, words in (
        ("attention_entropy", "Entropy of attention"),
        ("between_cosine", "Cosine between documents"),
        ("top_share", "Top share"),
    ):
        for _, row in stack[stack["metric"].eq(f"{metric}_change")].iterrows():
            sentences.append(f"{words}, mean over layers: {_show_estimate(row)} from first to last ({row['verdict']}).")
    for _, row in stack[stack["metric"].eq("precedence") & stack["seed"].isna()].iterrows():
        reason = row["note"].partition("; ")[2]
        sentences.append(f"Drift comes before sharpening in {_show_estimate(row)} of heads ({row['verdict']}): {reason}.")
    for _, row in stack[stack["metric"].eq("opposite_later") & stack["value"].notna()].iterrows():
        pairs = f"{_show_estimate(row)} of pairs ({row['verdict']})"
        sentences.append(f"Heads that end in opposite directions begin after those that end in the same direction in {pairs}.")
    for _, row in stack[stack["metric"].eq("rise_then_fall")].iterrows():
        sentences.append(f"Intrinsic dimension rises and then falls, mean over blocks: {row['verdict']}; {row['note']}.")
    return sentences


def _show_mean(values: pd.Series, digits: int = 3) -> str:
    return format_number(values.mean(), missing="", digits=digits) if len(values) else ""


def _show_fraction(rows: pd.DataFrame) -> str:
    """A fraction of heads, as in 3/12."""
    return "" if rows.empty else f"{round(rows['value'].iloc[0] * rows['n'].iloc[0])}/{rows['n'].iloc[0]}"


def _show_change(rows: pd.DataFrame) -> str:
    """A change, with a question mark if its interval contains 0."""
    if rows.empty:
        return ""
    return format_number(rows["value"].iloc[0], sign=True) + ("" if rows["verdict"].iloc[0] in ("up", "down") else "?")


def _show_step(values: pd.Series) -> str:
    return f"{values.median():.0f}" if values.notna().any() else ""


def _show_verdict(rows: pd.DataFrame) -> str:
    return "" if rows.empty else str(rows["verdict"].iloc[0])


def _show_estimate(row: Any) -> str:
    return format_estimate(row["value"], row["low"], row["high"])
