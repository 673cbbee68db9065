"""Statement 3: convolutional networks are mostly isotropic, and ResNet-50 is the exception."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pandas as pd

from isoscope.claims.claim import Decide, Section, Verdict
from isoscope.claims.deciding import most_models
from isoscope.claims.equal_n import layers_of_different_n, mention_left_out, split_comparable
from isoscope.claims.evidence import greatest_layer, layer_cosines, outer_thirds, row_estimates
from isoscope.claims.verdicts import decide_named_models
from isoscope.estimation.inference import Estimate, difference_of, mean_of
from isoscope.studies.godey2024.claims._layer_cosine import decide_by_cosine

decide_convolutions = partial(decide_by_cosine, groups=["convolution"])


def decide_with_and_without_null(decision: Callable[[Callable[[pd.DataFrame], Estimate]], Decide]) -> Decide:
    """A function that decides by the cosine itself and by the cosine less its null; undecided where the two disagree.

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


section = Section("godey2024", 3, needs="a ResNet-50: `isoscope measure microsoft/resnet-50 --data IMAGES --out RUN`")

section.add_claim(
    "most_convolutions_are_isotropic",
    statement="Convolutional networks are mostly isotropic, as they are and beyond the cosine that rectified features have by themselves.",
    refuted_by="surely fewer than half of the networks staying below the threshold in every layer",
    needs="the hidden states of six convolutional networks or more: `isoscope measure RESNET CONVNEXT VAN … --data IMAGES --out RUN`",
    decide=decide_with_and_without_null(partial(decide_convolutions, quantifier=most_models, above=False, unit="network")),
)
section.add_claim(
    "resnet50_is_anisotropic",
    statement="ResNet-50 is the exception among convolutional networks: it has an anisotropic layer.",
    refuted_by="a ResNet-50 whose cosine lies surely below the threshold in every layer",
    decide=decide_with_and_without_null(partial(decide_convolutions, names=("ResNet-50",))),
)
section.add_claim(
    "convnext_is_isotropic",
    statement="ConvNeXt, which has no batch norm, is isotropic in every layer.",
    refuted_by="a ConvNeXt with a layer whose cosine lies surely above the threshold",
    needs="a ConvNeXt: `isoscope measure facebook/convnext-tiny-224 --data IMAGES --out RUN`",
    decide=decide_convolutions(names=("ConvNeXt",), above=False),
)


@section.claim(
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
    return mention_left_out(decide_named_models(effects, -0.1, ["ResNet-50"], measure=measure, above=False), left_out)
