"""Claim 14: inside a globally anisotropic cloud neighbourhoods are isotropic."""

from __future__ import annotations

import pandas as pd

from isoscope.core.claim import Verdict, claim
from isoscope.statistics.deciding import Case, mean_of, shifted, weakest
from isoscope.statistics.evidence import by_model, estimates, of_models
from isoscope.statistics.verdicts import judged

SIGNS = {"local_share_excess": -1.0, "local_isoscore_excess": 1.0}


@claim(
    number=14,
    paper="razzhigaev2024",
    statement="Inside a globally anisotropic cloud neighbourhoods are isotropic: more so than in a Gaussian with the same covariance.",
    refuted_by="a model whose neighbourhoods are surely less isotropic than those of that Gaussian, the mean over layers",
    needs="local geometry of three models or more, which is computed on request: `isoscope claims RUN --metric local_share_excess "
    "--metric local_isoscore_excess`",
)
def locally_isotropic(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """Minus the excess of the local top share, and the excess of the local IsoScore, means over layers; the weaker of the two."""
    cases = {}
    for name, rows in by_model(of_models(table, list(SIGNS))).items():
        parts = [
            shifted(mean_of(estimates(rows[rows["metric"].eq(metric)])), 0.0, scale=sign)
            for metric, sign in SIGNS.items()
            if rows["metric"].eq(metric).any()
        ]
        cases[name] = Case(weakest(parts), (0.0,))
    return judged(cases, measure="how much more isotropic neighbourhoods are than a Gaussian's, by share or IsoScore, whichever is less,")
