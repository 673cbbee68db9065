"""isoscope compare"""

from __future__ import annotations

import shlex
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from isoscope.console.arguments import Json, Policy
from isoscope.console.output import new_table, print_json, print_next_steps, print_table, print_text, to_records
from isoscope.core.wording import format_change, format_count, format_interval, format_number

if TYPE_CHECKING:
    import pandas as pd

    from isoscope.runs.comparison import Comparison

NOTE = (
    "Differences are B − A with 95 % intervals. Paired: the same documents are left out, or drawn, of both runs at once; unpaired: from "
    "the intervals of both. A site moved if p is below 0.05 after Holm's adjustment over the sites of its metric."
)


def run(
    run_a: Annotated[str, typer.Argument(metavar="RUN_A", help="The run to compare with.")],
    run_b: Annotated[str, typer.Argument(metavar="RUN_B", help="The run that may have changed.")],
    metric: Annotated[
        list[str] | None,
        typer.Option(
            help="A metric, or NAME/d to divide it by the dimension; may be repeated. [between_cosine, top_share, effective_rank/d]"
        ),
    ] = None,
    policy: Policy = "all",
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME_A=NAME_B: compare this model of A with that of B. NAME@STEP names one step. May be repeated.", metavar="A=B"
        ),
    ] = None,
    fail_over: Annotated[
        float | None, typer.Option(min=0.0, help="Exit with 1 if a difference, of either sign, is clearly larger than this.")
    ] = None,
    json: Json = False,
) -> None:
    """Compare two runs layer by layer, with intervals over documents; with --fail-over, a check for continuous integration.

    **Examples**

    `isoscope compare runs/base runs/tuned`

    `isoscope compare runs/before runs/after --policy body --metric between_cosine --fail-over 0.05`

    `isoscope compare runs/all runs/all --model bert-base=untrained:bert-base --json`

    `isoscope compare runs/suite runs/suite --model decoder@0=decoder@800`
    """
    from isoscope.runs.comparison import compare
    from isoscope.runs.results import Results

    comparison = compare(Results(run_a), Results(run_b), metric=metric or None, policy=policy, models=_parse_pairs(model or []))
    over = None if fail_over is None else comparison.rows_beyond(fail_over)
    if json:
        fields = {"sentences": comparison.sentences, "differ": comparison.differ, "refused": comparison.refused}
        tables = {"rows": comparison.rows} | ({} if over is None else {"over": over})
        print_json(fields | {name: to_records(rows) for name, rows in tables.items()})
    else:
        _print_comparison(comparison)
        if over is not None:
            print_text(_describe_excess(over, fail_over or 0.0))
        runs = " ".join(map(shlex.quote, dict.fromkeys([run_a, run_b])))
        print_next_steps((f"isoscope report {runs} --out report.html", "the same numbers as charts"))
    # After everything is printed, so that a failing check also shows what moved.
    if over is not None and len(over):
        raise typer.Exit(1)


def _parse_pairs(words: list[str]) -> dict[str, str]:
    """`A=B` as {A: B}."""
    from isoscope.core.errors import IsoscopeError

    for word in words:
        if word.count("=") != 1 or word.startswith("=") or word.endswith("="):
            raise IsoscopeError(f"--model takes two names, as in bert-base=bert-tuned; got {word!r}.")
    return {first: second for first, _, second in (word.partition("=") for word in words)}


def _print_comparison(comparison: Comparison) -> None:
    for sentence in comparison.sentences + comparison.refused:
        print_text(sentence)
    if comparison.differ:
        settings = ", ".join(f"{name} ({a}, {b})" for name, (a, b) in comparison.differ.items())
        print_text(f"Apart from the weights, the runs differ in {settings}.")
    shown = [rows for _, rows in comparison.rows.groupby(["model_a", "model_b", "metric"], sort=False) if rows["difference"].any()]
    for rows in shown:
        own = rows.to_dict("records")
        first, second, stacks = own[0]["model_a"], own[0]["model_b"], {str(row["stack"]) for row in own}
        # What is the same in all rows stands in the title.
        title = [f"{own[0]['metric']}: {first}" + (f" → {second}" if first != second else ""), *(stacks if len(stacks) == 1 else ())]
        table = new_table(["layer", "A", "B", "B − A", "95 % interval", "moved"], words=("layer", "moved"))
        for row in own:
            values = [format_number(row["a"]), format_number(row["b"]), format_change(row["difference"])]
            moved = ("up" if row["difference"] > 0 else "down") if row["moved"] else ""
            table.add_row(_name_site(row, len(stacks) > 1), *values, format_interval(row["low"], row["high"], sign=True), moved)
        print_text()
        print_text(f"{', '.join(title)}, {_describe_pairing(own, len(stacks) > 1)}", style="italic")
        print_table(table)
    if shown:
        print_text(NOTE)


def _describe_pairing(rows: list[dict[Any, Any]], with_stack: bool) -> str:
    """How the differences were paired: most of them, and the layers that were paired in another way.

    >>> row = {"stack": "encoder", "kind": "hidden"}
    >>> _describe_pairing([row | {"layer": i, "how": "unpaired" if i == 1 else "paired"} for i in range(3)], False)
    'paired (1: unpaired)'
    """
    most, *others = (how for how, _ in Counter(str(row["how"]) for row in rows).most_common())
    apart = [f"{', '.join(_name_site(row, with_stack) for row in rows if row['how'] == how)}: {how}" for how in others]
    return f"{most} ({'; '.join(apart)})" if apart else most


def _describe_excess(over: pd.DataFrame, limit: float) -> str:
    """The result of `--fail-over` in one sentence."""
    if over.empty:
        return f"No difference is clearly larger than {limit:g}."
    worst = max(over.to_dict("records"), key=lambda row: float(row["least"]))
    largest = f"{worst['metric']} at {_name_site(worst)}, by at least {format_number(worst['least'])}"
    count = format_count(len(over), "difference is", "differences are")
    return f"{count} clearly larger than {limit:g}; the largest is that of {largest}."


def _name_site(row: Any, with_stack: bool = True) -> str:
    from isoscope.runs.result_views import name_place

    place = name_place(row["kind"], row["layer"])
    return f"{row['stack']} {place}" if with_stack else place
