"""isoscope dynamics"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console

WIDTH = 120
"""Columns of the table where there is no terminal."""
NOTE = (
    "cos² is the mean over heads of cos²(Q̄, K̄) at the last step, beside what pairs of different heads give, and its p over heads and "
    "seeds by Holm's adjustment over the layers. Same and opposite: heads whose cos(Q̄, K̄) lies surely beyond chance. Changes are from "
    "the first to the last step, with 95 % intervals over seeds, or over documents of one seed; ? where that holds 0. Onsets (drift, "
    "sharp) are steps, medians over heads."
)


def run(
    path: Annotated[str, typer.Argument(metavar="RUN", help="A run's folder that holds the checkpoints of a training.")],
    policy: Annotated[str, typer.Option(help="Which tokens count: all, no-special or body.")] = "all",
    centred: Annotated[bool, typer.Option("--centred", help="Trajectories about the mean of all steps too.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Every derived number as JSON.")] = False,
) -> None:
    """How training moves the geometry: do queries and keys align, does attention sharpen, when, and do dimensions rise and fall?

    What is derived stays in the run, for its figures; it is computed again only where checkpoints were added.

    **Examples**

    `isoscope dynamics runs/suite`

    `isoscope dynamics runs/suite --policy body --json`
    """
    from isoscope.engine.dynamics import derived, dynamics

    cells = derived(dynamics(path, policy=policy, centred=centred))
    if json:
        from isoscope.core.bounded import strict_json

        plain = [row for cell in cells for row in cell.rows().astype(object).pipe(lambda t: t.where(t.notna(), None)).to_dict("records")]
        sys.stdout.write(strict_json(plain) + "\n")
        return
    from rich.console import Console

    console = Console(markup=False, emoji=False, highlight=False)
    if not console.is_terminal:
        console.width = WIDTH
    for cell in cells:
        rows = _read(cell.rows())
        for stack in rows["stack"].dropna().unique():
            _show(console, rows[rows["stack"].eq(stack)], str(stack))
    console.print(NOTE)


def _read(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with what `spec` says of them as columns."""
    from json import loads

    said = [loads(spec) for spec in rows["spec"]]
    return rows.assign(verdict=[one.get("verdict", "") for one in said], note=[one.get("note", "") for one in said])


def _show(console: Console, rows: pd.DataFrame, stack: str) -> None:
    """One stack of one suite: a table by layer, and the findings about the whole in sentences."""
    console.print(_table(rows, f"{rows['model'].iloc[0]} · {stack}"))
    for line in _findings(rows):
        console.print(f"· {line}")
    console.print()


def _table(rows: pd.DataFrame, title: str) -> Any:
    """A line a layer."""
    from rich import box
    from rich.table import Table

    heads = ("layer", "cos²", "others", "p", "aligned", "same", "opposite", "entropy", "cosine", "top share", "drift", "sharp", "dimension")
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", padding=(0, 1, 0, 0), pad_edge=False)
    for name in heads:
        table.add_column(name, justify="left" if name in ("aligned", "dimension") else "right", no_wrap=True)
    for layer in sorted(rows["layer"].dropna().unique()):
        own = rows[rows["layer"].eq(layer)]
        table.add_row(str(layer), *_cells(own))
    return table


def _cells(own: pd.DataFrame) -> list[str]:
    """What the table says of one layer."""

    def of(metric: str) -> pd.DataFrame:
        return own[own["metric"].eq(metric)]

    last = of("alignment")
    last = last[last["step"].eq(last["step"].max())]
    p = of("alignment_p").sort_values("step").tail(1)
    drift = of("onset_drift")
    return [
        _mean(last["value"]),
        _mean(last["null"]),
        _mean(p["value"]),
        _word(of("alignment_change")),
        _part(of("same_direction_heads")),
        _part(of("opposite_direction_heads")),
        *(_sure(of(f"{metric}_change")) for metric in ("attention_entropy", "between_cosine", "top_share")),
        _step(drift[drift["head"].notna()]["value"]),
        _step(of("onset_sharpening")["value"]),
        _word(of("rise_then_fall")),
    ]


def _findings(rows: pd.DataFrame) -> list[str]:
    """The findings about a whole stack, in sentences."""
    said = []
    whole = rows[rows["layer"].isna()]
    p = whole[whole["metric"].eq("alignment_p")].sort_values("step")
    if len(p):
        change = rows[rows["metric"].eq("alignment_change")]
        held = ", ".join(str(layer) for layer in change[change["verdict"].eq("holds")]["layer"])
        said.append(f"Alignment of Q̄ and K̄, all layers at once: p = {_number(p['value'].iloc[-1])}; it holds in layers: {held or 'none'}.")
    opposite = rows[rows["metric"].eq("opposite_direction_heads") & rows["value"].gt(0)].sort_values("layer")
    if len(rows[rows["metric"].eq("opposite_direction_heads")]):
        said.append(f"Opposite ways, surely: {', '.join(f'layer {at}' for at in opposite['layer']) or 'no layer'}.")
    for metric, words in (("same_direction", "Most the same way"), ("opposite_direction", "Most opposite ways")):
        for _, one in rows[rows["metric"].eq(metric)].iterrows():
            said.append(f"{words}: head {one['head']} of layer {one['layer']}, cos(Q̄, K̄) = {_interval(one)}.")
    for metric, words in (
        ("attention_entropy", "Entropy of attention"),
        ("between_cosine", "Cosine between documents"),
        ("top_share", "Top share"),
    ):
        for _, one in whole[whole["metric"].eq(f"{metric}_change")].iterrows():
            said.append(f"{words}, mean over layers: {_interval(one)} from first to last ({one['verdict']}).")
    for _, one in whole[whole["metric"].eq("precedence") & whole["seed"].isna()].iterrows():
        said.append(f"Drift before sharpening in {_interval(one)} of heads ({one['verdict']}): {one['note'].partition('; ')[2]}.")
    for _, one in whole[whole["metric"].eq("opposite_later") & whole["value"].notna()].iterrows():
        said.append(f"Heads that end opposite begin after those that end the same way in {_interval(one)} of pairs ({one['verdict']}).")
    for _, one in whole[whole["metric"].eq("rise_then_fall")].iterrows():
        said.append(f"Intrinsic dimension rises and then falls, mean over blocks: {one['verdict']}; {one['note']}.")
    return said


def _mean(values: pd.Series) -> str:
    return _number(values.mean()) if len(values) else ""


def _part(found: pd.DataFrame) -> str:
    """A part of heads as how many of how many."""
    return "" if found.empty else f"{round(found['value'].iloc[0] * found['n'].iloc[0])}/{found['n'].iloc[0]}"


def _sure(found: pd.DataFrame) -> str:
    """A change, with a mark where the interval does not tell its direction."""
    return "" if found.empty else f"{found['value'].iloc[0]:+.3f}{'' if found['verdict'].iloc[0] in ('up', 'down') else '?'}"


def _step(values: pd.Series) -> str:
    return f"{values.median():.0f}" if values.notna().any() else ""


def _word(found: pd.DataFrame) -> str:
    return "" if found.empty else str(found["verdict"].iloc[0])


def _interval(one: Any) -> str:
    reach = "" if one["low"] != one["low"] else f" [{_number(one['low'])}, {_number(one['high'])}]"
    return f"{_number(one['value'])}{reach}"


def _number(x: float) -> str:
    """Three digits, or nothing where there is no number."""
    return "" if x != x else f"{x:.3g}"
