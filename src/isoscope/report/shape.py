"""Sentences about the shape of a stack: whether its top share is a bell, with sinks and without, and its intrinsic dimension."""

from __future__ import annotations

import math

import pandas as pd

from isoscope.charts.panels import list_policies
from isoscope.claims.evidence import BELL_HEIGHT, FLAT_RANGE, describe_different_n
from isoscope.core.model_groups import UNTRAINED
from isoscope.core.wording import format_count, format_number, format_p_value
from isoscope.estimation.inference import FEWEST_PER_GROUP, exact_permutation
from isoscope.report.line import Line, greatest, interval_of, least, site_of
from isoscope.trust.safe_io import parse_object

FORMS = {"squared": ("bell", "share_range"), "linear": ("bell_linear", "share_range_linear")}
WITHOUT_PROFILE = ("sink",)
"""Policies of few tokens, which have no profile over the layers."""


def bell_verdict(row: pd.Series) -> str:
    """`holds`, `fails` or `undecided`, by the interval of `bell`.

    >>> [bell_verdict(pd.Series({"low": low, "high": low + 0.1})) for low in (0.06, -0.06, 0.0, float("nan"))]
    ['holds', 'fails', 'undecided', 'undecided']
    """
    low, high = float(row["low"]), float(row["high"])
    return "holds" if low > BELL_HEIGHT else "fails" if high < BELL_HEIGHT else "undecided"


def profile_row(line: Line, metric: str, policy: str) -> pd.Series | None:
    """The row of a profile under a policy; None if it has no value."""
    rows = line.table[line.table["metric"].eq(metric) & line.table["policy"].eq(policy) & line.table["value"].notna()]
    return None if rows.empty else rows.iloc[0]


def share_profile(line: Line) -> str | None:
    """Whether the top share is a bell over the blocks, under each token policy and in both forms, and whether it is flat."""
    rows = line.table[line.table["metric"].isin(["bell", "bell_linear"])]
    if rows.empty:
        return None
    if rows["value"].isna().all():
        note = str(parse_object(rows.iloc[0]["spec"]).get("note", "")) or "it is not defined"
        return f"The shape of the top share is not judged: {note}."
    parts = [part for form in FORMS if (part := _describe_form(line, form))]
    meaning = (
        "B is the top share in the middle third of the blocks minus that in the first or the last sixth, whichever of the two is higher"
    )
    return f"{'; '.join([*parts, meaning])}."


def _describe_form(line: Line, form: str) -> str:
    """One form of the share; policies with the same number and verdict are named together."""
    metric, spread = FORMS[form]
    together: dict[str, list[str]] = {}
    for policy in [name for name in list_policies(line.table) if name not in WITHOUT_PROFILE]:
        row = profile_row(line, metric, policy)
        if row is not None:
            together.setdefault(_describe_bell(row, profile_row(line, spread, policy)), []).append(policy)
    parts = [f"{words} (tokens: {', '.join(names)})" for words, names in together.items()]
    return f"Top share, {form}: {'; '.join(parts)}" if parts else ""


def _describe_bell(row: pd.Series, spread: pd.Series | None) -> str:
    """The verdict with its evidence; a profile that is not a bell may be flat, or neither."""
    words = {"holds": "bell-shaped", "fails": "not bell-shaped", "undecided": "undecided whether bell-shaped"}[bell_verdict(row)]
    words += ", and flat" if spread is not None and float(spread["high"]) < FLAT_RANGE else ""
    words += f", B = {format_number(float(row['value']))}{interval_of(row) or ' without an interval'}"
    return words if spread is None else f"{words}, range over the blocks {format_number(float(spread['value']))}{interval_of(spread)}"


def bell_without_sinks(line: Line) -> str | None:
    """Whether a bell of body tokens is still one without sinks, which are recognised by their norm; None if there is no bell."""
    with_sinks, without = profile_row(line, "bell", "body"), profile_row(line, "bell", "body-no-sink")
    if with_sinks is None or without is None:
        return None
    every = profile_row(line, "bell", "all")
    heights = f"B = {format_number(float(with_sinks['value']))} for body tokens, "
    heights += f"{format_number(float(without['value']))}{interval_of(without)} without sinks"
    if bell_verdict(with_sinks) == "holds":
        answer = {"holds": "survives", "fails": "does not survive", "undecided": "may or may not survive"}[bell_verdict(without)]
        return f"The bell {answer} without sinks: {heights}."
    if every is not None and bell_verdict(every) == "holds":
        return f"The bell is lost, or uncertain, already without special and first tokens: {heights}."
    return None


def intrinsic_dimension(line: Line) -> str | None:
    """The least and the greatest intrinsic dimension over the layers."""
    rows = line.rows("two_nn")
    rows = rows[rows["kind"].eq("hidden")]
    if rows.empty:
        return None
    low, high = least(rows), greatest(rows)
    lowest, highest = (f"{format_number(float(row['value']))}{interval_of(row)}" for row in (low, high))
    if len(rows) == 1:
        text = f"The intrinsic dimension (TwoNN) is {lowest}"
    else:
        text = f"The intrinsic dimension (TwoNN) is least in {site_of(low)}, {lowest}, and greatest in {site_of(high)}, {highest}"
    if pd.isna(high["null"]):
        return f"{text}."
    return f"{text}; isotropic points at the same n in all {int(high['d'])} dimensions would give {format_number(float(high['null']))}."


def encoders_and_decoders(line: Line, others: list[Line]) -> str | None:
    """Whether decoders have a higher bell than encoders, by an exact permutation over the text models; None for other lines."""
    if bell_heights([line]).empty:
        return None
    heights = bell_heights(others)
    if heights["decoder"].nunique() < 2:
        return None
    # Models, not layers or heads, are what is permuted: those of one model are not independent of each other.
    numbers, labels = [float(x) for x in heights["value"]], [bool(x) for x in heights["decoder"]]
    by_role = {True: heights.loc[heights["decoder"], "value"], False: heights.loc[~heights["decoder"], "value"]}
    decoders, encoders = format_count(len(by_role[True]), "decoder"), format_count(len(by_role[False]), "encoder")
    if reason := describe_different_n(heights):
        return f"Whether decoders differ from encoders is not decided: {reason}."
    p = exact_permutation(numbers, labels)
    if math.isnan(p):
        return (
            f"Whether decoders differ from encoders cannot be decided with {decoders} and {encoders}; it takes {FEWEST_PER_GROUP} of each."
        )
    # Labels as numbers separate the groups perfectly, which gives the least p that this many models allow.
    smallest = exact_permutation([float(x) for x in labels], labels)
    means = {role: format_number(float(values.mean())) for role, values in by_role.items()}
    return (
        f"The bell (squared, tokens: {heights['policy'].iloc[0]}) is {means[True]} on average over {decoders} and {means[False]} over "
        f"{encoders}; exact permutation over models: {format_p_value(p)} (the least that this many models can give is "
        f"{format_number(smallest, digits=2)})."
    )


def bell_heights(lines: list[Line]) -> pd.DataFrame:
    """The bell of each trained text model that is an encoder or a decoder, not both. Its checkpoints and seeds count as one model."""
    rows = pd.concat([line.table[line.table["metric"].eq("bell")] for line in lines])
    rows = rows[rows["stack"].isin(["encoder", "decoder"]) & rows["modality"].eq("text").fillna(False)]
    rows = rows[~rows["model"].str.startswith(UNTRAINED) & rows["value"].notna()]
    # All models must be compared on the same tokens: the first policy that every model has.
    every = [name for name in list_policies(rows) if rows.loc[rows["policy"].eq(name), "model"].nunique() == rows["model"].nunique()]
    rows = rows[rows["policy"].eq(every[0])] if every else rows.iloc[:0]
    by_model = rows.assign(decoder=rows["stack"].eq("decoder")).groupby(["model", "decoder", "policy"], as_index=False)
    means = by_model.agg({"value": "mean", "n": "min", "metric": "first", "interval_about": "first"})
    of_one_kind: pd.DataFrame = means[~means["model"].duplicated(keep=False)]
    return of_one_kind
