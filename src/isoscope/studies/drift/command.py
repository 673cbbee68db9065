"""isoscope drift-test"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from isoscope.console.arguments import Json, Policy, RunFolder
from isoscope.console.output import new_table, print_json, print_table, print_text, to_records
from isoscope.core.wording import format_interval, format_number

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table

NOTE = (
    "As published, ρ, r and their p treat layers as independent, which is not a valid test. Δρ is Spearman's ρ between the differences of "
    "successive layers, and its p is that of permuting them; verdicts use Holm's adjustment over the models. Pooled: random effects over a "
    "group's models of 12 layers or more, with the 95 % interval of Δρ."
)
PUBLISHED = (("ρ", "spearman", 3), ("p", "spearman_p", 2), ("r", "pearson", 3), ("p", "pearson_p", 2))
PERMUTED = (("Δρ", "difference", 3), ("p", "p", 2))
"""The title of each column, its name in the table of associations, and its digits. Rich keeps columns apart by position."""

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
        title = f"{predictor} and mean_cosine over the layers"
        print_table(_table_of_tests(f"{title}, as published", rows[rows["model"].notna()], PUBLISHED))
        print_table(_table_of_tests(f"{title}, by permutation", rows, PERMUTED, verdicts=True))
    print_text(NOTE)


def _table_of_tests(title: str, rows: pd.DataFrame, columns: Sequence[tuple[str, str, int]], *, verdicts: bool = False) -> Table:
    """The models of each group below its title, and the pooled result; `verdicts` adds the column of verdicts."""
    import pandas as pd

    from isoscope.charts.records import label_lines
    from isoscope.core.model_groups import GROUPS

    names = ["model", "layers", *(name for name, _, _ in columns), *(["verdict"] if verdicts else [])]
    table = new_table(names, title=title, text=("model", "verdict"))
    for group, own in label_lines(rows.assign(stack=None))[0].groupby("group", sort=False):
        table.add_row(GROUPS[str(group)], style="bold")
        for row in own.to_dict("records"):
            is_pooled = pd.isna(row["model"])
            name, layers = (f"pooled over {row['models']}", "") if is_pooled else (row["line"], str(row["layers"]))
            numbers = (format_number(row[column], missing="", digits=digits) for _, column, digits in columns)
            interval = format_interval(row["low"], row["high"])
            verdict = [f"{interval}: {row['verdict']}" if interval else row["verdict"]] if verdicts else []
            table.add_row(f" {name}", layers, *numbers, *verdict, style="italic" if is_pooled else "")
    return table
