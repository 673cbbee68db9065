"""Claim 8: queries and keys become anisotropic in training."""

from __future__ import annotations

import pandas as pd

from isoscope.core.claim import Verdict, claim
from isoscope.statistics.chance import one_pair
from isoscope.statistics.deciding import Case
from isoscope.statistics.evidence import COSINES, FIXED
from isoscope.statistics.inference import least_of
from isoscope.statistics.suite_evidence import ends, over_seeds
from isoscope.statistics.verdicts import judged, together

METRIC = COSINES[0]


@claim(
    number=8,
    paper="godey2024",
    statement="Queries and keys become anisotropic in training: their cosine rises, and ends above the threshold.",
    refuted_by="a training in which the cosine of queries or keys surely falls, or ends surely below the threshold",
    needs="three trainings or more: `isoscope sweep SUITE --taps hidden,attention --out RUN`",
)
def queries_and_keys_become_anisotropic(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The mean over heads of the cosine of queries and of keys: its change, and where it ends; the weaker of queries and keys."""
    queries, keys = (ends(table, METRIC, kind=kind) for kind in ("query", "key"))
    widths = table[table["kind"].eq("query") & table["metric"].eq(METRIC)].groupby("model")["d"].max()
    rise, level = {}, {}
    for name in [name for name in queries if name in keys]:
        sides = queries[name], keys[name]
        d = int(widths[name.rpartition(" (")[0] if name not in widths.index else name])
        rise[name] = Case(least_of([over_seeds(side, side["last"] - side["first"]) for side in sides]), (0.0,))
        level[name] = Case(least_of([over_seeds(side, side["last"]) for side in sides]), (one_pair(d), *FIXED))
    return together(
        judged(rise, measure="the change of the cosine of queries or keys, whichever is less,", unit="suite"),
        judged(level, measure="the cosine of queries or keys at the end, whichever is less,", unit="suite"),
    )
