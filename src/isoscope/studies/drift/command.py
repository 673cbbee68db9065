"""isoscope drift-test"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from isoscope.console.arguments import Json, Policy, RunFolder
from isoscope.console.output import new_table, print_json, print_table, print_text, to_records
from isoscope.core.wording import format_number

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table

NOTE = (
    "ρ, r and their p are as published: they treat layers as independent, which is not a valid test. Δρ is Spearman's ρ between the "
    "differences of successive layers, and its p is that of permuting them; verdicts use Holm's adjustment over the models. Pooled: random "
    "effects over a group's models of 12 layers or more, with the 95 % interval of Δρ."
)
DIGITS = {"spearman": 3, "spearman_p": 2, "pearson": 3, "pearson_p": 2, "difference": 3, "p": 2}

VERB = "drift-test"


def run(path: RunFolder, policy: Policy = "all", json: Json = False) -> None:
    """Test whether drift and cosine rise and fall together over the layers, by model and by group.

    Prints the test as published, and one that is valid.

    **Examples**

    `isoscope drift-test runs/bert`

    `isoscope drift-test runs/all --policy body --json`
    """
    from isoscope.core.errors import IsoscopeError
    from isoscope.runs.results import Results

    associations = Results(path).associations(policy)
    if associations.empty:
        raise IsoscopeError(f"{path} has no model with layers; `isoscope drift-test` compares the hidden states of a model.")
    if json:
        print_json(to_records(associations))
        return
    for predictor, rows in associations.groupby("predictor", sort=False):
        print_table(_table_of_predictor(str(predictor), rows))
    print_text(NOTE)


def _table_of_predictor(predictor: str, rows: pd.DataFrame) -> Table:
    """The models of each group below its title, and the pooled result."""
    from isoscope.core.model_groups import GROUPS

    # Rich keeps columns apart by position, so that three of them may be called p.
    columns = ["model", "layers", "ρ", "p", "r", "p", "Δρ", "p", "verdict"]
    table = new_table(columns, title=f"{predictor} and mean_cosine over the layers", text=("model", "verdict"))
    for group, own in rows.groupby("group", sort=False):
        table.add_row(GROUPS[str(group)], style="bold")
        for row in own[own["model"].notna()].to_dict("records"):
            numbers = (format_number(row[name], missing="", digits=digits) for name, digits in DIGITS.items())
            table.add_row(f" {_name_model(row)}", str(row["layers"]), *numbers, row["verdict"])
        for row in own[own["model"].isna()].to_dict("records"):
            low, high, difference = (format_number(row[name], missing="") for name in ("low", "high", "difference"))
            p = format_number(row["p"], missing="", digits=2)
            verdict = f"[{low}, {high}] {row['verdict']}" if low else row["verdict"]
            table.add_row(f" pooled over {row['models']}", "", "", "", "", "", difference, p, verdict, style="italic")
    return table


def _name_model(row: dict[Any, Any]) -> str:
    """A model with its step and seed, if it has them."""
    import pandas as pd

    checkpoint = [f"{word} {row[word]}" for word in ("step", "seed") if not pd.isna(row[word])]
    return " · ".join([str(row["model"]), *checkpoint])
