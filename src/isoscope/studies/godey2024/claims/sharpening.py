"""Statement 9: in training attention sharpens in all layers, first in the first ones, and after queries and keys have begun to drift."""

from __future__ import annotations

import pandas as pd

from isoscope.claims.claim import Section, Verdict
from isoscope.claims.evidence import greatest_layer, outer_thirds, row_estimates
from isoscope.claims.suite_evidence import final_rows, mean_over_seeds, seed_means, suite_rows
from isoscope.claims.verdicts import decide_models

section = Section("godey2024", 9, "three trainings or more with their dynamics: `isoscope sweep SUITE --taps hidden,attention --out RUN`")


@section.claim(
    statement="In training the entropy of attention falls in all layers.",
    refuted_by="a training with a layer whose entropy surely rises from the first step to the last",
)
def entropy_falls_in_all_layers(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The change of the entropy in the layer where it falls least."""
    by_suite = {name: rows[rows["layer"].notna()] for name, rows in suite_rows(table, "attention_entropy_change").items()}
    effects = {name: greatest_layer(rows) for name, rows in by_suite.items() if len(rows)}
    return decide_models(effects, measure="the change of entropy in the layer where it falls least", above=False, unit="suite")


@section.claim(
    statement="Attention stays sharper in the first layers than in the last.",
    refuted_by="a model whose first third of layers ends with surely more entropy than its last third",
    needs="the attention of three trained models or more: `isoscope measure MODEL MODEL MODEL --taps hidden,attention --out RUN`",
)
def first_layers_stay_sharper(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The mean entropy of the first third of layers less that of the last, in nats."""
    effects = {}
    for name, rows in final_rows(table, "attention_entropy").items():
        first, last = (seed_means(third) for third in outer_thirds(rows))
        effects[name] = mean_over_seeds(first - last)
    return decide_models(effects, measure="the entropy of the first third of layers less that of the last", above=False)


@section.claim(
    statement="Attention sharpens after its queries and keys have begun to drift: in most heads drift comes first.",
    refuted_by="a training in which surely more than half of the heads sharpen first",
)
def drift_comes_before_sharpness(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The share of heads whose drift begins before their sharpening, compared with one half."""
    by_suite = {name: rows[rows["seed"].isna()] for name, rows in suite_rows(table, "precedence").items()}
    effects = {name: row_estimates(rows)[0] for name, rows in by_suite.items() if len(rows)}
    return decide_models(effects, 0.5, measure="the share of heads whose drift begins before their sharpening", unit="suite")
