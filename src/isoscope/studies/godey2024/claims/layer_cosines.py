"""Statements 1, 2, 3, 5 and 10: how large the cosine is over the layers, and what is left of it after centring."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial

import pandas as pd

from isoscope.claims.claim import Decide, Section, Verdict
from isoscope.claims.deciding import every_model, most_models
from isoscope.claims.evidence import (
    TRANSFORMERS,
    cosine_thresholds,
    greatest_layer,
    is_named,
    layer_cosines,
    layers_of_different_n,
    least_layer,
    mention_left_out,
    model_rows,
    outer_thirds,
    row_estimates,
    rows_by_model,
    split_comparable,
)
from isoscope.claims.verdicts import Quantifier, compare_groups, decide_models
from isoscope.estimation.inference import Estimate, difference_of, least_of, mean_of
from isoscope.estimation.isotropic_quantiles import one_pair

GREATEST = "the greatest cosine over the layers"
THREE_TRANSFORMERS = "the hidden states of three trained Transformers or more: `isoscope measure MODEL MODEL MODEL --out RUN`"


def decide_by_cosine(
    summarise: Callable[[pd.DataFrame], Estimate] = greatest_layer,
    *,
    groups: Collection[str] = TRANSFORMERS,
    names: tuple[str, ...] = (),
    stack: str = "",
    threshold: float | None = None,
    above: bool = True,
    quantifier: Quantifier = every_model,
    unit: str = "model",
    measure: str = GREATEST,
) -> Decide:
    """A function that decides a claim about one number per model, made of the cosines of its layers.

    Args:
        summarise: from the layers of a model to its effect.
        groups: the groups of models that the claim is about.
        names: the models that the claim names; by default all models of the groups.
        stack: the only stack that counts, if not all do.
        threshold: the threshold; else the three of `cosine_thresholds`, which must agree.
        above: whether the effect is claimed to lie above the threshold, or below.
        quantifier: the number of models that it is claimed for.
        unit: the word for one model.
        measure: the effect in words.
    """

    def decide(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
        layers = layer_cosines(table, series, groups, names=names)
        layers = {name: rows[rows["stack"].eq(stack)] if stack else rows for name, rows in layers.items()}
        effects = {name: summarise(rows) for name, rows in layers.items() if len(rows)}
        thresholds = {name: cosine_thresholds(int(layers[name]["d"].max())) if threshold is None else (threshold,) for name in effects}
        return decide_models(effects, thresholds, quantifier, measure=measure, names=names, above=above, unit=unit)

    return decide


CHARACTERS_ALONE, OTHERS = ("ByT5", "CANINE-c", "MANTa"), ("CharacterBERT", "CANINE-s")

statement_1 = Section("godey2024", 1)

statement_1.add_claim(
    "every_transformer_has_an_anisotropic_layer",
    statement="Every Transformer has an anisotropic layer, whatever it reads.",
    refuted_by="a trained Transformer whose cosine lies surely below the threshold in every layer",
    needs=THREE_TRANSFORMERS,
    decide=decide_by_cosine(),
)
statement_1.add_claim(
    "character_models_have_an_anisotropic_layer",
    statement="Character-level models have an anisotropic layer too, so that rare tokens are not the cause.",
    refuted_by="a character-level model whose cosine lies surely below the threshold in every layer",
    needs="the hidden states of three character-level models or more: `isoscope measure CANINE BYT5 MANTA --out RUN`",
    decide=decide_by_cosine(groups=["character"], unit="character-level model"),
)
statement_1.add_claim(
    "t5_decoders_are_extreme",
    statement="The decoders of ByT5 and T5 are extremely anisotropic: their cosine exceeds 0.8 somewhere.",
    refuted_by="a decoder of either whose cosine lies surely below 0.8 in every layer",
    needs="a ByT5 and a T5 with their decoders: `isoscope measure google/byt5-base google-t5/t5-base --out RUN`",
    decide=decide_by_cosine(names=("ByT5", "T5"), stack="decoder", threshold=0.8, measure="the greatest cosine over the decoder's layers"),
)


@statement_1.claim(
    statement="Models of characters or bytes alone (ByT5, CANINE-c, MANTa) are more anisotropic than CharacterBERT and CANINE-s.",
    refuted_by="CharacterBERT and CANINE-s lying surely above them, by the mean cosine over layers",
    needs="several sizes of ByT5, CANINE-c or MANTa, and of CharacterBERT or CANINE-s: four of each to decide it by permutation",
)
def only_characters_are_more_anisotropic(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The mean cosine over layers, one group of models less the other."""
    layers = layer_cosines(table, series, ["character"])
    alone, others = ({name: rows for name, rows in layers.items() if is_named(name, *group)} for group in (CHARACTERS_ALONE, OTHERS))
    return compare_groups(alone, others, measure="the mean cosine over layers", names=("models of characters or bytes alone", "others"))


statement_2 = Section("godey2024", 2)

statement_2.add_claim(
    "speech_is_anisotropic_in_every_layer",
    statement="Speech models are anisotropic in every layer: their cosine is 0.2 or above throughout.",
    refuted_by="a speech model with a layer whose cosine lies surely below 0.2",
    needs="the hidden states of three speech models or more: `isoscope measure WAV2VEC HUBERT WHISPER --data CLIPS --out RUN`",
    decide=decide_by_cosine(least_layer, groups=["speech"], threshold=0.2, unit="speech model", measure="the least cosine over the layers"),
)
statement_2.add_claim(
    "most_vision_models_have_an_anisotropic_layer",
    statement="Almost all vision Transformers have an anisotropic layer.",
    refuted_by="surely fewer than half of the vision Transformers having one",
    needs="the hidden states of six vision Transformers or more: `isoscope measure VIT BEIT DEIT MIT … --data IMAGES --out RUN`",
    decide=decide_by_cosine(groups=["vision"], quantifier=most_models, unit="vision Transformer"),
)
statement_2.add_claim(
    "mit_is_isotropic",
    statement="MiT (SegFormer's encoder) is isotropic in every layer.",
    refuted_by="a MiT with a layer whose cosine lies surely above the threshold",
    needs="a MiT: `isoscope measure nvidia/mit-b0 --data IMAGES --out RUN`",
    decide=decide_by_cosine(groups=["vision"], names=("MiT",), above=False),
)
statement_2.add_claim(
    "vit_is_low",
    statement="ViT's cosine is low throughout: below 0.2 in every layer.",
    refuted_by="a ViT with a layer whose cosine lies surely above 0.2",
    needs="a ViT: `isoscope measure google/vit-base-patch16-224 --data IMAGES --out RUN`",
    decide=decide_by_cosine(groups=["vision"], names=("ViT",), threshold=0.2, above=False),
)


decide_convolutions = partial(decide_by_cosine, groups=["convolution"])


def decide_with_and_without_null(decision: Callable[[Callable[[pd.DataFrame], Estimate]], Decide]) -> Decide:
    """A function that decides by the cosine itself and by the cosine less its null; undecided if the two disagree.

    Rectified features have a cosine of 1/π even if they are independent, and the null of their sites says so.
    """
    plain, beyond = decision(greatest_layer), decision(partial(greatest_layer, less="null"))

    def decide(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
        first, second = plain(table, series), beyond(table, series)
        if first.outcome == second.outcome:
            return first
        with_it, without_it = (verdict.sentence[:1].lower() + verdict.sentence[1:] for verdict in (first, second))
        sentence = "It depends on whether the cosine of independent rectified features (1/π) is subtracted. "
        return replace(first, outcome="undecided", sentence=f"{sentence}Without: {with_it} With: {without_it}")

    return decide


statement_3 = Section("godey2024", 3, needs="a ResNet-50: `isoscope measure microsoft/resnet-50 --data IMAGES --out RUN`")

statement_3.add_claim(
    "most_convolutions_are_isotropic",
    statement="Convolutional networks are mostly isotropic, as they are and beyond the cosine that rectified features have by themselves.",
    refuted_by="surely fewer than half of the networks staying below the threshold in every layer",
    needs="the hidden states of six convolutional networks or more: `isoscope measure RESNET CONVNEXT VAN … --data IMAGES --out RUN`",
    decide=decide_with_and_without_null(partial(decide_convolutions, quantifier=most_models, above=False, unit="network")),
)
statement_3.add_claim(
    "resnet50_is_anisotropic",
    statement="ResNet-50 is the exception among convolutional networks: it has an anisotropic layer.",
    refuted_by="a ResNet-50 whose cosine lies surely below the threshold in every layer",
    decide=decide_with_and_without_null(partial(decide_convolutions, names=("ResNet-50",))),
)
statement_3.add_claim(
    "convnext_is_isotropic",
    statement="ConvNeXt, which has no batch norm, is isotropic in every layer.",
    refuted_by="a ConvNeXt with a layer whose cosine lies surely above the threshold",
    needs="a ConvNeXt: `isoscope measure facebook/convnext-tiny-224 --data IMAGES --out RUN`",
    decide=decide_convolutions(names=("ConvNeXt",), above=False),
)


@statement_3.claim(
    statement="ResNet-50 becomes more isotropic with depth: its last third of layers lies at least 0.1 below its first.",
    refuted_by="a ResNet-50 whose last third of layers lies surely less than 0.1 below its first, or above it",
)
def resnet50_falls_with_depth(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The mean cosine of the last third of layers less that of the first."""
    layers = layer_cosines(table, series, ["convolution"], names=["ResNet-50"])
    layers, left_out = split_comparable(layers, layers_of_different_n(layers))
    effects = {}
    for name, rows in layers.items():
        first, last = (mean_of(row_estimates(third)) for third in outer_thirds(rows))
        effects[name] = difference_of(last, first)
    measure = "the cosine of the last third of layers less that of the first"
    return mention_left_out(decide_models(effects, -0.1, measure=measure, names=["ResNet-50"], above=False), left_out)


statement_5 = Section("godey2024", 5)


@statement_5.claim(
    statement="Removing the mean leaves nearly perfect isotropy, by the cosine of what is left.",
    refuted_by="a trained Transformer with a layer whose cosine lies surely above the threshold after centring",
    needs="the hidden states, with a sample, of three trained Transformers or more: `isoscope measure MODEL MODEL MODEL --out RUN`",
)
def centring_leaves_no_cosine(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The greatest centred cosine over the layers of each model, below all three thresholds."""
    layers = rows_by_model(model_rows(table, ["centred_cosine"]))
    effects = {name: greatest_layer(rows) for name, rows in layers.items()}
    thresholds = {name: cosine_thresholds(int(rows["d"].max())) for name, rows in layers.items()}
    return decide_models(effects, thresholds, measure="the greatest cosine over the layers after centring", above=False)


@statement_5.claim(
    statement="Removing the mean leaves nearly perfect isotropy, by IsoScore: nine tenths of that of isotropic points of the same n and d.",
    refuted_by="a trained Transformer with a layer whose IsoScore lies surely below nine tenths of that of isotropic points",
    needs="the hidden states, with second moments, of three trained Transformers or more: `isoscope measure MODEL MODEL MODEL --out RUN`",
)
def centring_leaves_all_directions_alike(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The least IsoScore over the layers of each model, which is of the centred covariance, as a share of its null at this n and d."""
    rows = model_rows(table, ["isoscore"])
    effects = {}
    for name, own in rows_by_model(rows[rows["null"].gt(0)]).items():
        effects[name] = least_of([score.linear(1 / null) for score, null in zip(row_estimates(own), own["null"], strict=True)])
    return decide_models(effects, 0.9, measure="the least IsoScore over the layers, as a share of that of isotropic points,")


statement_10 = Section("godey2024", 10, THREE_TRANSFORMERS)


@statement_10.claim(
    statement="Average cosines of trained models lie far outside the isotropic range: above twice the 95th percentile of one pair.",
    refuted_by="a trained Transformer whose cosine, averaged over its layers, lies surely below that",
)
def averages_outside_the_isotropic_range(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The mean over layers against the null of one pair, as published. Against the null of an average, every number is far outside."""
    layers = layer_cosines(table, series)
    effects = {name: mean_of(row_estimates(rows)) for name, rows in layers.items()}
    thresholds = {name: (2 * one_pair(int(rows["d"].max())),) for name, rows in layers.items()}
    measure = "the mean cosine over layers (the null is twice the 95th percentile of one isotropic pair)"
    return decide_models(effects, thresholds, measure=measure)
