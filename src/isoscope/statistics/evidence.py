"""What the tables hold for a claim: the layers of trained models, each model once, as effects with intervals."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable

import numpy as np
import pandas as pd

from isoscope.core.group import UNTRAINED, grouped, one_checkpoint
from isoscope.core.number import THIS_N, same_n
from isoscope.core.table import SERIES_COLUMNS, tidy
from isoscope.statistics.chance import one_pair
from isoscope.statistics.groups import effective_groups
from isoscope.statistics.inference import Estimate, greatest_of, least_of
from isoscope.statistics.simultaneous import band_factor

TRANSFORMERS = ("token", "character", "speech", "vision")
FIXED = (0.1, 0.2)
"""What a cosine is held against beside the 95th percentile of one isotropic pair."""
COSINES = ("between_cosine", "mean_cosine")
"""The cosine of pairs from different items, and where that is not known over all pairs."""
LEFT_OUT = "between_cosine_left_out"
"""The series that has the first of them without each group of items."""
NAMES: dict[str, str] = {
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
"""The models that a paper names, and how a model's name shows that it is one of them."""
SAME = ["model", "stack", "kind", "layer", "head", "policy", "metric"]
"""What makes two rows the same number of the same model."""
NO_SERIES = tidy([], SERIES_COLUMNS)
Units = dict[str, pd.DataFrame]


def is_named(model: object, name: str) -> bool:
    """Whether a model's name shows that it is the one that a paper calls `name`.

    >>> is_named("google/flan-t5-small", "T5"), is_named("google/byt5-small", "T5"), is_named("dinov2-small", "ViT")
    (True, False, False)
    """
    return re.search(NAMES[name], str(model).lower().rpartition("/")[2]) is not None


def of_models(
    table: pd.DataFrame,
    metrics: Collection[str],
    groups: Collection[str] = TRANSFORMERS,
    *,
    kind: str = "hidden",
    policy: str | None = "all",
) -> pd.DataFrame:
    """The defined values of trained models of these groups, each once: of a suite its last step, and no untrained twins."""
    own = table[table["metric"].isin(list(metrics)) & table["kind"].eq(kind) & table["value"].notna()]
    own = own if policy is None else own[own["policy"].eq(policy)]
    own = grouped(one_checkpoint(own, NO_SERIES)[0] if own["step"].notna().any() else own)
    own = own[own["group"].isin(list(groups)) & ~own["model"].str.startswith(UNTRAINED)]
    return own.drop_duplicates(SAME)


def by_model(rows: pd.DataFrame) -> Units:
    """The rows of each model, in the order in which they come."""
    return {str(name): rows[rows["model"].eq(name)] for name in rows["model"].drop_duplicates()}


def by_stack(rows: pd.DataFrame) -> Units:
    """The rows of each stack; a model of several stacks is named with each."""
    known = rows[["model", "stack"]].drop_duplicates()
    several = set(known.loc[known["model"].duplicated(keep=False), "model"])
    return {
        f"{model} ({stack})" if model in several else str(model): rows[rows["model"].eq(model) & rows["stack"].eq(stack)]
        for model, stack in known.itertuples(index=False, name=None)
    }


def cosines(table: pd.DataFrame, series: pd.DataFrame, groups: Collection[str] = TRANSFORMERS, *, named: str | None = None) -> Units:
    """The cosine of every hidden layer, by model: between items where that is known, and with columns `widen` and `freedom` then.

    `widen` is how much wider the intervals must be for all layers to hold at once, `freedom` the degrees of freedom of each.
    """
    found = by_model(of_models(table, COSINES, groups))
    found = {name: rows for name, rows in found.items() if named is None or is_named(name, named)}
    chosen = {name: rows[rows["metric"].eq(COSINES[0])] for name, rows in found.items()}
    left_out = series[series["name"].eq(LEFT_OUT) & series["kind"].eq("hidden") & series["policy"].eq("all")]
    left_out = one_checkpoint(table, left_out)[1] if left_out["step"].notna().any() else left_out
    return {name: with_band(rows, left_out[left_out["model"].eq(name)]) if len(rows) else found[name] for name, rows in chosen.items()}


def with_band(rows: pd.DataFrame, left_out: pd.DataFrame) -> pd.DataFrame:
    """A model's layers with `widen` and `freedom`, from their numbers without each group of items; unchanged where a layer has none."""
    layers = ["stack", "layer"]
    points = left_out.drop_duplicates([*layers, "x"])
    without, sizes = (points.pivot_table(index="x", columns=layers, values=name) for name in ("y", "weight"))
    values = rows.set_index(layers)["value"]
    if not len(without) or not values.index.isin(without.columns).all():
        return rows
    moves = (without[values.index] - values).fillna(0.0)
    freedom = min(effective_groups(sizes[layer].dropna().to_numpy(float)) for layer in values.index) - 1
    return rows.assign(widen=band_factor(moves.to_numpy(float), freedom), freedom=freedom) if freedom > 0 else rows


def highest(rows: pd.DataFrame, *, less: str | None = None) -> Estimate:
    """The greatest number over a model's layers, with an interval that allows for how many there are."""
    return greatest_of(estimates(rows, less=less), _widen(rows))


def lowest(rows: pd.DataFrame) -> Estimate:
    """The least number over a model's layers, with an interval that allows for how many there are."""
    return least_of(estimates(rows), _widen(rows))


def _widen(rows: pd.DataFrame) -> float | None:
    return float(rows["widen"].iloc[0]) if "widen" in rows and len(rows) else None


def thresholds(rows: pd.DataFrame) -> tuple[float, ...]:
    """What a layer's cosine must exceed to be called anisotropic: the 95th percentile of one isotropic pair at this d, 0.1 and 0.2."""
    return (one_pair(int(rows["d"].max())), *FIXED)


def estimates(rows: pd.DataFrame, *, less: str | None = None) -> list[Estimate]:
    """Rows as numbers with intervals and places; `less` names a column that is taken off, and `freedom` is one that rows may have."""
    off = rows[less].fillna(0.0) if less else pd.Series(0.0, index=rows.index)
    free = rows["freedom"] if "freedom" in rows else pd.Series(math.inf, index=rows.index)
    stacks = len(rows["stack"].unique()) > 1
    return [
        Estimate(value - minus, low - minus, high - minus, place(layer, stack if stacks else None), float(freedom))
        for value, low, high, minus, layer, stack, freedom in zip(
            rows["value"], rows["low"], rows["high"], off, rows["layer"], rows["stack"], free, strict=True
        )
    ]


def different_n(rows: pd.DataFrame) -> str:
    """What to say of numbers that depend on n and have different n, before they are put next to each other; empty where there are none."""
    own = rows[rows["interval_about"].eq(THIS_N) & rows["n"].notna()]
    for metric, of_metric in own.groupby("metric", sort=False):
        low, high = int(of_metric["n"].min()), int(of_metric["n"].max())
        if not same_n(low, high):
            return f"n differs ({low:,} to {high:,}) and {metric} depends on n; measure all of them with --max-tokens {low}"
    return ""


def place(layer: object, stack: object = None) -> str:
    """Where a row stands.

    >>> place(3), place(3, "decoder"), place(pd.NA)
    ('layer 3', 'decoder layer 3', '')
    """
    return "" if pd.isna(layer) else f"{'' if stack is None else f'{stack} '}layer {layer}"  # type: ignore[call-overload]


def thirds(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rows of the first third of a stack's layers, and those of the last."""
    layers = np.sort(rows["layer"].dropna().unique().astype(int))
    part = math.ceil(len(layers) / 3)
    return rows[rows["layer"].isin(list(layers[:part]))], rows[rows["layer"].isin(list(layers[-part:]))]


def in_order(names: Iterable[str], most: int = 4) -> str:
    """Names joined by commas; of many the first few and how many more.

    >>> in_order(["a", "b"]), in_order(list("abcdef"))
    ('a, b', 'a, b, c, d and 2 more')
    """
    known = list(names)
    return ", ".join(known[:most]) + (f" and {len(known) - most} more" if len(known) > most else "")


def shown(x: float) -> str:
    """A number with three digits that mean something.

    >>> shown(0.12345), shown(1234.5), shown(float("nan"))
    ('0.123', '1,234', 'not defined')
    """
    return "not defined" if not math.isfinite(x) else f"{x:,.0f}" if abs(x) >= 1000 else f"{x:.3g}"


def interval(effect: Estimate) -> str:
    """A number and its interval.

    >>> interval(Estimate(0.5, 0.4, 0.6)), interval(Estimate(0.5))
    ('0.5 [0.4, 0.6]', '0.5 without an interval')
    """
    if not math.isfinite(effect.low):
        return f"{shown(effect.value)} without an interval"
    return f"{shown(effect.value)} [{shown(effect.low)}, {shown(effect.high)}]"
