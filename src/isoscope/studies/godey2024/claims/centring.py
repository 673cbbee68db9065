"""Statement 5: removing the mean leaves nearly perfect isotropy."""

from __future__ import annotations

import pandas as pd

from isoscope.claims.claim import Section, Verdict
from isoscope.claims.evidence import cosine_thresholds, greatest_layer, model_rows, row_estimates, rows_by_model
from isoscope.claims.verdicts import decide_models
from isoscope.estimation.inference import least_of

section = Section("godey2024", 5)


@section.claim(
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


@section.claim(
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
