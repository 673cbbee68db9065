"""Whether drift explains anisotropy over the layers, as verdicts: Spearman's ρ of first differences, pooled over the models of a group."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import pandas as pd

from isoscope.core.claim import NOTHING, Finding, Outcome, Verdict
from isoscope.core.group import UNTRAINED
from isoscope.statistics.association import FEWEST_LAYERS, FEWEST_MODELS, associations, fisher
from isoscope.statistics.chance import margin
from isoscope.statistics.comparable_layers import comparable_over_layers
from isoscope.statistics.deciding import Case, outcome
from isoscope.statistics.equal_n import LeftOut, leaving_out
from isoscope.statistics.evidence import COSINES, in_order, interval, is_named, of_models
from isoscope.statistics.inference import Estimate

PREDICTOR = "drift_ratio"
WEAK = 0.3
"""Where it is claimed that the two do not go together: ρ is surely below this."""


def _found(table: pd.DataFrame, groups: Collection[str], without: Sequence[str] = ()) -> pd.DataFrame:
    rows = of_models(table, [*COSINES, PREDICTOR], groups)
    left = left_out_by_layers(table, groups)
    named = [str(model) in left or any(is_named(model, name) for name in without) for model in rows["model"]]
    return associations(rows[[not found for found in named]].drop(columns="group")) if len(rows) else associations(rows)


def left_out_by_layers(table: pd.DataFrame, groups: Collection[str]) -> LeftOut:
    """The models of these groups that have no cosine by which their layers can be compared."""
    return comparable_over_layers(of_models(table, [*COSINES, PREDICTOR], groups))[1]


def _effect(difference: float, layers: int, stacks: int) -> Estimate:
    """ρ with the interval of Fisher's z."""
    differences = layers - stacks
    if differences <= 3 or math.isnan(difference):
        return Estimate(difference)
    z, variance = fisher(difference, differences)
    half = margin(math.sqrt(variance), math.inf)
    return Estimate(math.tanh(z), math.tanh(z - half), math.tanh(z + half), f"{layers} layers", scale=math.atanh)


def rank_cases(table: pd.DataFrame, groups: Collection[str], names: Sequence[str] | None = None) -> dict[str, Case]:
    """Models of twelve layers or more, each with ρ and the threshold below which drift and cosine do not go together."""
    found = _found(table, groups)
    stacks = table.loc[table["metric"].eq(PREDICTOR) & table["kind"].eq("hidden")].groupby("model")["stack"].nunique()
    rows = found[found["model"].notna() & found["layers"].ge(FEWEST_LAYERS) & found["predictor"].eq(PREDICTOR)]
    return {
        str(model): Case(_effect(float(difference), int(layers), int(stacks[model])), (WEAK,))
        for model, difference, layers in zip(rows["model"], rows["difference"], rows["layers"], strict=True)
        if not str(model).startswith(UNTRAINED) and (names is None or any(is_named(model, name) for name in names))
    }


def pooled(table: pd.DataFrame, group: str, *, without: Sequence[str] = ()) -> Verdict:
    """Whether drift ratio and cosine go together in a group of models; those that the paper excepts are left out."""
    found = _found(table, [group], without)
    found = found[found["predictor"].eq(PREDICTOR)]
    models, whole = found[found["model"].notna()], found[found["model"].isna()]
    left = left_out_by_layers(table, [group])
    if models.empty or whole.empty:
        return leaving_out(NOTHING, left)
    words: dict[str, Outcome] = {"holds": "holds", "fails": "fails"}
    findings = []
    for one in models.to_dict("records"):
        effect = _effect(float(one["difference"]), int(one["layers"]), 1)
        findings.append(
            Finding(one["model"], words.get(one["verdict"], "undecided"), effect.value, effect.low, effect.high, 0.0, effect.note)
        )
    row = whole.iloc[0]
    few, n = len(models[models["layers"] < FEWEST_LAYERS]), int(row["models"])
    effect = Estimate(float(row["difference"]), float(row["low"]), float(row["high"]))
    said = (
        f"Spearman's ρ between the differences of drift ratio and cosine from layer to layer is {interval(effect)}, pooled over {n} models"
    )
    said = said if n else "No model here has enough layers"
    said += f" (left out: {few} with fewer than {FEWEST_LAYERS} layers)" if few else ""
    said += f"; it takes {FEWEST_MODELS} models of {FEWEST_LAYERS} layers" if n < FEWEST_MODELS else ""
    said += f"; excepted by the paper: {in_order(without)}" if without else ""
    word: Outcome = "undecided" if n < FEWEST_MODELS else outcome(effect, 0.0)
    return leaving_out(Verdict(word, f"{said}.", tuple(findings), effect.value, effect.low, effect.high, 0.0), left)
