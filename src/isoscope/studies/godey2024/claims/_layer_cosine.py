"""The decision function of claims about the greatest, the least or the mean cosine over a model's layers."""

from __future__ import annotations

from collections.abc import Callable, Collection

import pandas as pd

from isoscope.claims.claim import Decide, Verdict
from isoscope.claims.deciding import every_model
from isoscope.claims.evidence import TRANSFORMERS, cosine_thresholds, greatest_layer, layer_cosines
from isoscope.claims.verdicts import Quantifier, decide_models, decide_named_models
from isoscope.estimation.inference import Estimate

GREATEST = "the greatest cosine over the layers"


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
        groups: the groups of models that it is about.
        names: the models that the claim names; without them it is about all models of the groups.
        stack: the only stack that counts, if not all do.
        threshold: the threshold; else the three of `cosine_thresholds`, which must agree.
        above: whether the effect is claimed to lie above the threshold, or below.
        quantifier: of how many models it is claimed.
        unit: the word for one model.
        measure: what the effect is, in words.
    """

    def decide(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
        layers = layer_cosines(table, series, groups, names=names)
        layers = {name: rows[rows["stack"].eq(stack)] if stack else rows for name, rows in layers.items()}
        effects = {name: summarise(rows) for name, rows in layers.items() if len(rows)}
        thresholds = {name: cosine_thresholds(int(layers[name]["d"].max())) if threshold is None else (threshold,) for name in effects}
        if names:
            return decide_named_models(effects, thresholds, names, measure=measure, above=above)
        return decide_models(effects, thresholds, quantifier, measure=measure, above=above, unit=unit)

    return decide
