"""Claim 5: removing the mean leaves variance that is spread evenly."""

from __future__ import annotations

import pandas as pd

from isoscope.core.claim import Verdict, claim
from isoscope.statistics.deciding import Case
from isoscope.statistics.evidence import by_model, estimates, of_models
from isoscope.statistics.inference import least_of
from isoscope.statistics.verdicts import judged

NEARLY = 0.9


@claim(
    number=5,
    paper="godey2024",
    statement="Removing the mean leaves nearly perfect isotropy, by IsoScore: nine tenths of what isotropic points of that size have.",
    refuted_by="a trained Transformer with a layer whose IsoScore lies surely below nine tenths of that of isotropic points",
    needs="the hidden states, with second moments, of three trained Transformers or more: `isoscope measure MODEL MODEL MODEL --out RUN`",
)
def centring_leaves_all_directions_alike(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The least IsoScore over the layers of each model, which is of the centred covariance, beside its null at this n and d."""
    rows = of_models(table, ["isoscore"])
    rows = rows[rows["null"].gt(0)]
    cases = {}
    for name, own in by_model(rows).items():
        parts = [one.linear(1 / null) for one, null in zip(estimates(own), own["null"], strict=True)]
        cases[name] = Case(least_of(parts), (NEARLY,))
    return judged(cases, measure="the least IsoScore over the layers, as a part of that of isotropic points,")
