"""Statement 4: drift and cosine rise and fall together over the layers of Transformers, and not in most convolutional networks.

The correlation is Spearman's ρ between the differences from layer to layer; `estimation/drift_test.py` says why. It is pooled over the
models of a group.
"""

from __future__ import annotations

import math
from collections.abc import Collection

import pandas as pd

from isoscope.claims.claim import UNTESTED, Decide, Finding, Outcome, Section, Verdict
from isoscope.claims.deciding import most_models, single_outcome
from isoscope.claims.evidence import COSINES, TRANSFORMERS, LeftOut, describe_estimate, is_named, mention_left_out, model_rows
from isoscope.claims.verdicts import decide_models, make_verdict
from isoscope.core.model_groups import UNTRAINED
from isoscope.core.numerics import margin
from isoscope.core.wording import format_list
from isoscope.estimation.drift_test import FEWEST_LAYERS, FEWEST_MODELS, associations, comparable_over_layers, fisher
from isoscope.estimation.inference import Estimate

PREDICTOR = "drift_ratio"
WEAK = 0.3
"""Drift and cosine do not go together if ρ is surely below this."""
EXCEPTIONS = {"token": ("GPT-2",), "character": ("CANINE-c", "MANTa-base"), "speech": ("HuBERT", "Whisper-base"), "vision": ()}
"""By group, the models that the paper excepts."""
MEASURE = "Spearman's ρ between the differences of drift ratio and cosine"


def correlate_layers(table: pd.DataFrame, groups: Collection[str], exceptions: tuple[str, ...] = ()) -> tuple[pd.DataFrame, LeftOut]:
    """The associations of the drift ratio with the cosine, one row per model and group; and the models without a comparable cosine."""
    rows = model_rows(table, [*COSINES, PREDICTOR], groups)
    left_out = comparable_over_layers(rows)[1]
    wanted = [str(model) not in left_out and not is_named(model, *exceptions) for model in rows["model"]]
    correlations = associations(rows[pd.Series(wanted, index=rows.index, dtype=bool)].drop(columns="group"))
    return correlations[correlations["predictor"].eq(PREDICTOR)], left_out


def rank_correlation(rho: float, layers: int, stacks: int) -> Estimate:
    """ρ with the interval of Fisher's z."""
    differences = layers - stacks
    if differences <= 3 or math.isnan(rho):
        return Estimate(rho)
    z, variance = fisher(rho, differences)
    half = margin(math.sqrt(variance), math.inf)
    return Estimate(math.tanh(z), math.tanh(z - half), math.tanh(z + half), f"{layers} layers", scale=math.atanh)


def model_correlations(table: pd.DataFrame, groups: Collection[str]) -> tuple[dict[str, Estimate], LeftOut]:
    """ρ of each model of these groups that has twelve layers or more; and the models without a comparable cosine."""
    correlations, left_out = correlate_layers(table, groups)
    stacks = table.loc[table["metric"].eq(PREDICTOR) & table["kind"].eq("hidden")].groupby("model")["stack"].nunique()
    rows = correlations[correlations["model"].notna() & correlations["layers"].ge(FEWEST_LAYERS)]
    effects = {
        str(model): rank_correlation(float(rho), int(layers), int(stacks[model]))
        for model, rho, layers in zip(rows["model"], rows["difference"], rows["layers"], strict=True)
        if not str(model).startswith(UNTRAINED)
    }
    return effects, left_out


def decide_pooled(group: str) -> Decide:
    """A function that decides whether drift ratio and cosine go together in a group of models, without those that the paper excepts."""

    def decide(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
        correlations, left_out = correlate_layers(table, [group], EXCEPTIONS[group])
        models, pooled = correlations[correlations["model"].notna()], correlations[correlations["model"].isna()]
        if models.empty or pooled.empty:
            return mention_left_out(UNTESTED, left_out)
        outcomes: dict[str, Outcome] = {"holds": "holds", "fails": "fails"}
        findings = []
        for row in models.to_dict("records"):
            rho = rank_correlation(float(row["difference"]), int(row["layers"]), 1)
            # A model's own outcome comes from its permutation test, which needs no normal approximation as the interval does.
            outcome = outcomes.get(row["verdict"], "undecided")
            findings.append(Finding(row["model"], outcome, rho.value, rho.low, rho.high, 0.0, rho.note))
        over_models = pooled.iloc[0]
        n, short = int(over_models["models"]), int((models["layers"] < FEWEST_LAYERS).sum())
        effect = Estimate(float(over_models["difference"]), float(over_models["low"]), float(over_models["high"]))
        estimate = f"{MEASURE} from layer to layer is {describe_estimate(effect)}, pooled over {n} models"
        too_short = f" (left out: {short} with fewer than {FEWEST_LAYERS} layers)" if short else ""
        parts = [(estimate if n else "no model has enough layers") + too_short]
        parts += [f"it takes {FEWEST_MODELS} models of {FEWEST_LAYERS} layers"] if n < FEWEST_MODELS else []
        parts += [f"excepted by the paper: {format_list(EXCEPTIONS[group])}"] if EXCEPTIONS[group] else []
        decided = single_outcome(effect, 0.0) if n >= FEWEST_MODELS else "undecided"
        return mention_left_out(make_verdict(decided, parts, tuple(findings), effect, 0.0), left_out)

    return decide


statement_4 = Section("godey2024", 4)

for group, models, examples in (
    ("token", "subword models", "BERT ROBERTA T5"),
    ("character", "character-level models", "CANINE-S CHARACTERBERT BYT5"),
    ("speech", "speech models", "WAV2VEC WHISPER … --data CLIPS"),
    ("vision", "vision Transformers", "VIT BEIT DEIT --data IMAGES"),
):
    excepted = f" (except {format_list(EXCEPTIONS[group])})" if EXCEPTIONS[group] else ""
    statement_4.add_claim(
        f"drift_explains_{group}_models",
        statement=f"Drift and cosine go together over the layers of {models}{excepted}.",
        refuted_by="a pooled correlation of differences between layers that lies surely below 0",
        needs=f"three {models} with twelve layers or more: `isoscope measure {examples} --out RUN`",
        decide=decide_pooled(group),
    )


@statement_4.claim(
    statement="In GPT-2 (by ranks), CANINE-c, MANTa-base, HuBERT and Whisper-base drift and cosine do not go together: ρ is below 0.3.",
    refuted_by="one of them in which ρ, by differences between layers, lies surely above 0.3",
    needs="GPT-2, CANINE-c, MANTa-base, HuBERT and Whisper-base: `isoscope measure openai-community/gpt2 google/canine-c … --out RUN`",
)
def drift_leaves_out_exceptions(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """Spearman's ρ of first differences in each of them; those with fewer than twelve layers are not tested."""
    names = [name for group in EXCEPTIONS.values() for name in group]
    effects, left_out = model_correlations(table, TRANSFORMERS)
    effects = {model: effect for model, effect in effects.items() if is_named(model, *names)}
    return mention_left_out(decide_models(effects, WEAK, measure=MEASURE, names=names, above=False), left_out)


@statement_4.claim(
    statement="In most convolutional networks drift and cosine do not go together: ρ is below 0.3.",
    refuted_by="ρ, by differences between layers, surely above 0.3 in surely more than half of them",
    needs="six convolutional networks with twelve blocks or more: `isoscope measure RESNET CONVNEXT VAN … --data IMAGES --out RUN`",
)
def drift_leaves_out_convolutions(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """Spearman's ρ of first differences in each of them."""
    effects, left_out = model_correlations(table, ["convolution"])
    return mention_left_out(decide_models(effects, WEAK, most_models, measure=MEASURE, above=False, unit="network"), left_out)
