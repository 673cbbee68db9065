"""The rows of the tables that test a claim, each model once, as estimates with intervals; and which of them may be compared.

Numbers that depend on n are compared at equal n only. A claim leaves the other models out, and its verdict says so."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from isoscope.claims.claim import Verdict
from isoscope.core.model_groups import UNTRAINED, add_groups, list_suites, select_one_checkpoint
from isoscope.core.number import THIS_N, same_n
from isoscope.core.table import SERIES_COLUMNS, make_table
from isoscope.core.wording import NOT_DEFINED, format_estimate, format_site
from isoscope.estimation.inference import Estimate, band_factor, greatest_of, least_of
from isoscope.estimation.isotropic_quantiles import one_pair
from isoscope.statistics.jackknife_groups import effective_groups

TRANSFORMERS = ("token", "character", "speech", "vision")
COSINES = ("between_cosine", "mean_cosine")
"""The cosine of pairs from different items or, if that is not known, of all pairs."""
MODEL_NAMES: dict[str, str] = {
    # A look-behind keeps a short name out of longer words: T5 is not in "byt5", MiT not in "limit-b0".
    "ByT5": r"byt5",
    "T5": r"(?<![a-z])t5",
    "CANINE-c": r"canine-c",
    "CANINE-s": r"canine-s",
    "MANTa": r"manta",
    "MANTa-base": r"manta.*base",
    "CharacterBERT": r"character[-_]?bert",
    "HuBERT": r"hubert",
    "Whisper-base": r"whisper-base",
    "GPT-2": r"gpt-?2(?![0-9])",
    "MiT": r"(?<![a-z])(mit|segformer)-b[0-9]",
    "ViT": r"(?<![a-z])vit[-_](?!.*(dino|mae|clip|msn))",
    "ResNet-50": r"resnet-?50",
    "ConvNeXt": r"convnext",
}
"""The models that a paper names, and the pattern in a model's name that identifies them."""
ROW_KEYS = ["model", "stack", "kind", "layer", "head", "policy", "metric"]
"""Rows that agree in these columns are the same number of the same model."""
NO_SERIES = make_table([], SERIES_COLUMNS)
RowsByName = dict[str, pd.DataFrame]
"""The rows of each model, or of each of its stacks."""


def is_named(model: object, *names: str) -> bool:
    """Whether a model's name shows that it is one of those that a paper calls by these names.

    >>> is_named("google/flan-t5-small", "T5"), is_named("google/byt5-small", "T5"), is_named("dinov2-small", "ViT")
    (True, False, False)
    """
    return any(re.search(MODEL_NAMES[name], str(model).lower().rpartition("/")[2]) for name in names)


def model_rows(
    table: pd.DataFrame,
    metrics: Collection[str],
    groups: Collection[str] = TRANSFORMERS,
    *,
    kind: str = "hidden",
    policy: str | None = "all",
) -> pd.DataFrame:
    """The defined values of trained models of these groups, each once: a suite is represented by its last step, and no untrained twins."""
    own = table[table["metric"].isin(list(metrics)) & table["kind"].eq(kind) & table["value"].notna()]
    own = own if policy is None else own[own["policy"].eq(policy)]
    own = add_groups(select_one_checkpoint(own, NO_SERIES)[0] if own["step"].notna().any() else own)
    own = own[own["group"].isin(list(groups)) & ~own["model"].str.startswith(UNTRAINED)]
    return own.drop_duplicates(ROW_KEYS)


def rows_by_model(rows: pd.DataFrame) -> RowsByName:
    """The rows of each model, in the order of the table."""
    return {str(name): rows[rows["model"].eq(name)] for name in rows["model"].drop_duplicates()}


def rows_by_stack(rows: pd.DataFrame) -> RowsByName:
    """The rows of each stack, by the name of its model; if the model has several stacks, the stack is added in brackets."""
    known = rows[["model", "stack"]].drop_duplicates()
    several = set(known.loc[known["model"].duplicated(keep=False), "model"])
    return {
        f"{model} ({stack})" if model in several else str(model): rows[rows["model"].eq(model) & rows["stack"].eq(stack)]
        for model, stack in known.itertuples(index=False, name=None)
    }


def layer_cosines(
    table: pd.DataFrame, series: pd.DataFrame, groups: Collection[str] = TRANSFORMERS, *, names: Collection[str] = ()
) -> RowsByName:
    """The cosine of every hidden layer, by model: between items if that is known, with the columns of `add_band`.

    `names` chooses the models that a paper calls by these names.
    """
    both = rows_by_model(model_rows(table, COSINES, groups))
    both = {name: rows for name, rows in both.items() if not names or is_named(name, *names)}
    between = {name: rows[rows["metric"].eq(COSINES[0])] for name, rows in both.items()}
    # The cosine of each layer without each group of items: the band over all layers is made from these.
    left_out = series[series["name"].eq(f"{COSINES[0]}_left_out") & series["kind"].eq("hidden") & series["policy"].eq("all")]
    left_out = select_one_checkpoint(table, left_out)[1] if left_out["step"].notna().any() else left_out
    return {name: add_band(rows, left_out[left_out["model"].eq(name)]) if len(rows) else both[name] for name, rows in between.items()}


def add_band(rows: pd.DataFrame, left_out: pd.DataFrame) -> pd.DataFrame:
    """A model's layers with two more columns; unchanged if `left_out` lacks one of the layers.

    `widen` is the factor by which the intervals must grow to hold all layers at once, `freedom` the degrees of freedom of each. Both come
    from `left_out`, the series with the number of each layer without each group of items.
    """
    layers = ["stack", "layer"]
    points = left_out.drop_duplicates([*layers, "x"])
    without, sizes = (points.pivot_table(index="x", columns=layers, values=name) for name in ("y", "weight"))
    values = rows.set_index(layers)["value"]
    if not len(without) or not values.index.isin(without.columns).all():
        return rows
    moves = (without[values.index] - values).fillna(0.0)  # a group without points in a layer does not move that layer
    freedom = min(effective_groups(sizes[layer].dropna().to_numpy(float)) for layer in values.index) - 1
    return rows.assign(widen=band_factor(moves.to_numpy(float), freedom), freedom=freedom) if freedom > 0 else rows


def greatest_layer(rows: pd.DataFrame, *, less: str | None = None) -> Estimate:
    """The greatest number over a model's layers, with an interval that allows for the number of layers; `less` as in `row_estimates`."""
    return greatest_of(row_estimates(rows, less=less), _band_of(rows))


def least_layer(rows: pd.DataFrame) -> Estimate:
    """The least number over a model's layers, with an interval that allows for the number of layers."""
    return least_of(row_estimates(rows), _band_of(rows))


def _band_of(rows: pd.DataFrame) -> float | None:
    return float(rows["widen"].iloc[0]) if "widen" in rows and len(rows) else None


def cosine_thresholds(d: int) -> tuple[float, ...]:
    """The levels that a cosine must exceed to be called anisotropic: the 95th percentile of one isotropic pair at this d, 0.1 and 0.2."""
    return one_pair(d), 0.1, 0.2


def row_estimates(rows: pd.DataFrame, *, less: str | None = None) -> list[Estimate]:
    """Rows as estimates, each with its layer as the note.

    `less` names a column to subtract. Rows may have a column `freedom`, and a column `note` to use in place of the layer.
    """
    minus = rows[less].fillna(0.0) if less else pd.Series(0.0, index=rows.index)
    freedom = rows["freedom"] if "freedom" in rows else pd.Series(math.inf, index=rows.index)
    several = len(rows["stack"].unique()) > 1
    sites = zip(rows["layer"], rows["stack"], strict=True)
    layers = ["" if pd.isna(layer) else format_site("hidden", layer, stack if several else None) for layer, stack in sites]
    columns = rows["value"] - minus, rows["low"] - minus, rows["high"] - minus, rows.get("note", layers), freedom
    return [Estimate(value, low, high, note, float(free)) for value, low, high, note, free in zip(*columns, strict=True)]


def outer_thirds(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rows of the first third of a stack's layers, and those of the last."""
    layers = np.sort(rows["layer"].dropna().unique().astype(int))
    count = math.ceil(len(layers) / 3)
    return rows[rows["layer"].isin(list(layers[:count]))], rows[rows["layer"].isin(list(layers[-count:]))]


def describe_estimate(effect: Estimate) -> str:
    """A number and its interval, in words if it is not defined.

    >>> describe_estimate(Estimate(0.5, 0.4, 0.6)), describe_estimate(Estimate(math.nan))
    ('0.500 [0.400, 0.600]', 'not defined')
    """
    return format_estimate(effect.value, effect.low, effect.high) or NOT_DEFINED


LeftOut = dict[str, str]
"""By model, why it is left out."""


def describe_different_n(rows: pd.DataFrame) -> str:
    """Why these rows cannot be compared, if their metric depends on n and they have different n; else empty."""
    own = rows[rows["interval_about"].eq(THIS_N) & rows["n"].notna()]
    for metric, of_metric in own.groupby("metric", sort=False):
        low, high = int(of_metric["n"].min()), int(of_metric["n"].max())
        if not same_n(low, high):
            return f"n differs ({low:,} to {high:,}) and {metric} depends on n; measure all of them with --max-tokens {low}"
    return ""


def layers_of_different_n(rows_by_name: Mapping[str, pd.DataFrame]) -> LeftOut:
    """The models whose layers have different n, for a metric that depends on n."""
    reasons = {name: describe_different_n(rows) for name, rows in rows_by_name.items()}
    # Without the advice after the semicolon: --max-tokens cannot make the layers of one network equal.
    return {name: reason.partition(";")[0] for name, reason in reasons.items() if reason}


def steps_of_different_n(table: pd.DataFrame, metric: str, kind: str) -> LeftOut:
    """The suites in which a layer or head has different n at different steps or seeds, for a metric that depends on n."""
    own = table[table["metric"].eq(metric) & table["kind"].eq(kind) & table["policy"].eq("all")]
    own = own[own["interval_about"].eq(THIS_N) & own["n"].notna() & own["step"].notna()]
    left_out: LeftOut = {}
    for name, rows in rows_by_stack(own[own["model"].isin(list_suites(own))]).items():
        ranges = rows.groupby(["layer", "head"], dropna=False)["n"].agg(["min", "max"])
        low, high = int(ranges["min"].min()), int(ranges["max"].max())
        if not all(same_n(*pair) for pair in ranges.itertuples(index=False)):
            left_out[name] = f"n differs between steps ({low:,} to {high:,}) and {metric} depends on n; measure all with --max-tokens {low}"
    return left_out


def split_comparable(rows_by_name: RowsByName, reasons: LeftOut) -> tuple[RowsByName, LeftOut]:
    """The models without a reason to leave them out, and those with one."""
    comparable = {name: rows for name, rows in rows_by_name.items() if name not in reasons}
    return comparable, {name: reason for name, reason in reasons.items() if name in rows_by_name}


def mention_left_out(verdict: Verdict, left_out: LeftOut) -> Verdict:
    """The verdict with the models that were left out of it, and why; undecided if no other model remains."""
    if not left_out:
        return verdict
    reasons = "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
    if not verdict.findings:
        return replace(verdict, outcome="undecided", sentence=f"Not compared: {reasons}.")
    return replace(verdict, sentence=f"{verdict.sentence} Left out: {reasons}.")


def require_equal_n(verdict: Verdict, rows: pd.DataFrame) -> Verdict:
    """A verdict that compares these rows of several models with each other: undecided if they depend on n and have different n."""
    reason = describe_different_n(rows) if verdict.findings else ""
    if not reason:
        return verdict
    return replace(verdict, outcome="undecided", sentence=f"Not compared: {reason}.", effect=math.nan, low=math.nan, high=math.nan)


BELL_HEIGHT = 0.05
"""A stack is bell-shaped if the lower bound of B is above this."""
FLAT_RANGE = 0.1
"""A stack is flat if the upper bound of the range over its blocks is below this."""
LANGUAGE = ("token", "character")
POLICIES = ("all", "no-special", "body", "body-no-sink")
"""A shape must be the same under each of these token policies."""


def stack_profiles(table: pd.DataFrame, metrics: Collection[str], stack: str) -> RowsByName:
    """The profiles of models that have this stack alone, `decoder` or `encoder`, with a `note` that names metric and policy."""
    rows = model_rows(table, metrics, LANGUAGE, policy=None)
    rows = rows[rows["policy"].isin(list(POLICIES)) & rows["layer"].isna()]
    rows = rows.assign(note=rows["metric"] + ", " + rows["policy"])
    left_out = blocks_of_different_n(table, stack)
    return {name: own for name, own in rows_by_model(rows).items() if list(own["stack"].unique()) == [stack] and name not in left_out}


def blocks_of_different_n(table: pd.DataFrame, stack: str) -> LeftOut:
    """The decoders, or encoders, whose blocks have different n under all tokens: part of their shape would come from n.

    Without sinks, the blocks of any model may differ by a few tokens. That is ignored.
    """
    rows = model_rows(table, ["top_share"], LANGUAGE)
    return layers_of_different_n(rows_by_model(rows[rows["stack"].eq(stack) & rows["layer"].gt(0)]))
