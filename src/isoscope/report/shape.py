"""The shape of a stack in plain sentences: whether its top share is a bell, with sinks and without, and its intrinsic dimension."""

from __future__ import annotations

import math

import pandas as pd

from isoscope.core.bounded import parsed_object
from isoscope.core.group import UNTRAINED
from isoscope.drawing.policies import list_policies
from isoscope.report.line import Line, bounds, greatest, least, place, show
from isoscope.statistics.equal_n import describe_different_n
from isoscope.statistics.permutation import MODELS, exact_permutation

HEIGHT = 0.05
"""A profile is bell-shaped where the lower bound of `bell` is above this."""
FLAT = 0.1
"""A profile is flat where the upper bound of `share_range` is below this."""
FORMS = {"squared": ("bell", "share_range"), "linear": ("bell_linear", "share_range_linear")}
LEFT_OUT = ("sink",)
"""Policies that choose few tokens of no one layer: no profile is drawn of them."""


def verdict(row: pd.Series) -> str:
    """`holds`, `fails` or `undecided`, by the interval of `bell`.

    >>> [verdict(pd.Series({"low": low, "high": low + 0.1})) for low in (0.06, -0.06, 0.0, float("nan"))]
    ['holds', 'fails', 'undecided', 'undecided']
    """
    low, high = float(row["low"]), float(row["high"])
    return "holds" if low > HEIGHT else "fails" if high < HEIGHT else "undecided"


def whole(line: Line, metric: str, policy: str) -> pd.Series | None:
    """The row of a profile under a policy; None where it has no value."""
    rows = line.table[line.table["metric"].eq(metric) & line.table["policy"].eq(policy) & line.table["value"].notna()]
    return None if rows.empty else rows.iloc[0]


def shape(line: Line) -> str | None:
    """Whether the top share is a bell over the blocks, under each token policy and in both forms, and whether it is flat."""
    rows = line.table[line.table["metric"].isin(["bell", "bell_linear"])]
    if rows.empty:
        return None
    if rows["value"].isna().all():
        return f"Of the shape of its top share nothing is said: {_note(rows.iloc[0])}."
    parts = [part for form in FORMS if (part := _form(line, form))]
    meant = "B is how far the top share of the middle third of blocks lies above that of the first or the last sixth, whichever is higher."
    return " ".join([*parts, meant]) + sinks_and_bell(line)


def _form(line: Line, form: str) -> str:
    """One form of the share: policies with the same number and verdict are named together."""
    metric, spread = FORMS[form]
    together: dict[str, list[str]] = {}
    for policy in [name for name in list_policies(line.table) if name not in LEFT_OUT]:
        row = whole(line, metric, policy)
        if row is not None:
            together.setdefault(_judged(row, whole(line, spread, policy)), []).append(policy)
    said = [f"{judged} (tokens: {', '.join(names)})" for judged, names in together.items()]
    return f"Top share, {form}: {'; '.join(said)}." if said else ""


def _judged(row: pd.Series, spread: pd.Series | None) -> str:
    """The verdict with its evidence; a bell that fails may be flat, or neither."""
    found = verdict(row)
    words = {"holds": "bell-shaped", "fails": "not bell-shaped", "undecided": "undecided whether bell-shaped"}[found]
    flat = spread is not None and float(spread["high"]) < FLAT
    words += ", and flat" if flat else ""
    words += f", B = {show(float(row['value']))}{bounds(row)}"
    words += " without an interval" if pd.isna(row["low"]) else ""
    return words if spread is None else f"{words}, range over the blocks {show(float(spread['value']))}{bounds(spread)}"


def sinks_and_bell(line: Line) -> str:
    """Whether a bell among the body's tokens is still one when sinks are taken out by their norm."""
    with_sinks, without = whole(line, "bell", "body"), whole(line, "bell", "body-no-sink")
    if with_sinks is None or without is None:
        return ""
    every, question = whole(line, "bell", "all"), " Does the bell survive without sinks?"
    found = f"B = {show(float(with_sinks['value']))} among body tokens, {show(float(without['value']))}{bounds(without)} without sinks"
    if verdict(with_sinks) == "holds":
        answer = {"holds": "Yes", "fails": "No", "undecided": "Undecided"}[verdict(without)]
        return f"{question} {answer}: {found}."
    if every is not None and verdict(every) == "holds":
        return f"{question} It is gone, or unsure, as soon as special and first tokens are left out: {found}."
    return ""


def intrinsic(line: Line) -> str | None:
    """The least and the greatest intrinsic dimension over the layers, and where."""
    rows = line.rows("two_nn")
    rows = rows[rows["kind"].eq("hidden")]
    if rows.empty:
        return None
    low, high = least(rows), greatest(rows)
    d = int(high["d"])
    if len(rows) == 1:
        text = f"The intrinsic dimension (TwoNN) is {show(float(low['value']))}{bounds(low)}"
    else:
        text = f"The intrinsic dimension (TwoNN) is least in {place(low)}, {show(float(low['value']))}{bounds(low)}, and greatest in "
        text += f"{place(high)}, {show(float(high['value']))}{bounds(high)}"
    null = "" if pd.isna(high["null"]) else f"; isotropic points at the same n in all {d} dimensions would give {show(float(high['null']))}"
    return f"{text}{null}."


def encoders_and_decoders(line: Line, others: list[Line]) -> str | None:
    """Whether decoders have a higher bell than encoders, by an exact permutation over the models of text; a stack of text alone asks it."""
    if heights([line]).empty:
        return None
    found = heights(others)
    if found["decoder"].nunique() < 2:
        return None
    numbers, labels = [float(x) for x in found["value"]], [bool(x) for x in found["decoder"]]
    by_role = {True: found.loc[found["decoder"], "value"], False: found.loc[~found["decoder"], "value"]}
    decoders, encoders = _models(len(by_role[True]), "decoder"), _models(len(by_role[False]), "encoder")
    if said := describe_different_n(found):
        return f"Whether decoders differ from encoders is not decided: {said}."
    p = exact_permutation(numbers, labels)
    if math.isnan(p):
        return f"Whether decoders differ from encoders cannot be decided with {decoders} and {encoders}: it takes {MODELS} of each."
    smallest = exact_permutation([float(x) for x in labels], labels)
    return (
        f"The bell (squared, tokens: {found['policy'].iloc[0]}) is {show(float(by_role[True].mean()))} on average over {decoders} and "
        f"{show(float(by_role[False].mean()))} over {encoders}; exact permutation over models: p = {show(p)} (so many models cannot give "
        f"less than {show(smallest)})."
    )


def heights(lines: list[Line]) -> pd.DataFrame:
    """The bell of each trained model of text that is an encoder or a decoder, not both: its checkpoints and seeds are one model."""
    rows = pd.concat([line.table[line.table["metric"].eq("bell")] for line in lines])
    rows = rows[rows["stack"].isin(["encoder", "decoder"]) & rows["modality"].eq("text").fillna(False)]
    rows = rows[~rows["model"].str.startswith(UNTRAINED) & rows["value"].notna()]
    every = [name for name in list_policies(rows) if rows.loc[rows["policy"].eq(name), "model"].nunique() == rows["model"].nunique()]
    rows = rows[rows["policy"].eq(every[0])] if every else rows.iloc[:0]
    by_model = rows.assign(decoder=rows["stack"].eq("decoder")).groupby(["model", "decoder", "policy"], as_index=False)
    means = by_model.agg({"value": "mean", "n": "min", "metric": "first", "interval_about": "first"})
    alone: pd.DataFrame = means[~means["model"].duplicated(keep=False)]
    return alone


def _models(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


def _note(row: pd.Series) -> str:
    note = parsed_object(row["spec"]).get("note", "")
    return str(note) or "it is not defined"
