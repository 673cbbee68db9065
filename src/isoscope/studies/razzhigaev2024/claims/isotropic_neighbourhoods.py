"""Statement 14: inside a globally anisotropic cloud, neighbourhoods are isotropic."""

from __future__ import annotations

import pandas as pd

from isoscope.claims.claim import Section, Verdict
from isoscope.claims.evidence import model_rows, row_estimates, rows_by_model
from isoscope.claims.verdicts import decide_models
from isoscope.estimation.inference import least_of, mean_of

SIGNS = {"local_share_excess": -1.0, "local_isoscore_excess": 1.0}
"""Neighbourhoods are more isotropic than a Gaussian's if the first is negative and the second positive."""

section = Section("razzhigaev2024", 14)


@section.claim(
    statement="Inside a globally anisotropic cloud neighbourhoods are isotropic: more so than in a Gaussian with the same covariance.",
    refuted_by="a model whose neighbourhoods are surely less isotropic than those of that Gaussian, the mean over layers",
    needs="local geometry of three models or more, which is computed on request: `isoscope claims RUN --metric local_share_excess "
    "--metric local_isoscore_excess`",
)
def locally_isotropic(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """Minus the excess of the local top share, and the excess of the local IsoScore, means over layers; the weaker of the two."""
    effects = {}
    for name, rows in rows_by_model(model_rows(table, list(SIGNS))).items():
        layers = {metric: row_estimates(rows[rows["metric"].eq(metric)]) for metric in SIGNS}
        effects[name] = least_of([mean_of(own).linear(SIGNS[metric]) for metric, own in layers.items() if own])
    measure = "how much more isotropic neighbourhoods are than a Gaussian's, by share or IsoScore, whichever is less,"
    return decide_models(effects, measure=measure)
