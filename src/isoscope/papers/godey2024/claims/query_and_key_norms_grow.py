"""Claim 7: the norms of queries and keys grow with the bias."""

from __future__ import annotations

import pandas as pd

from isoscope.core.claim import Verdict, claim
from isoscope.statistics.block_evidence import draws, growth
from isoscope.statistics.deciding import Case, weakest
from isoscope.statistics.verdicts import on_blocks


@claim(
    number=7,
    paper="godey2024",
    statement="The norms of the queries and keys of an untrained block grow with the bias.",
    refuted_by="norms of queries, or of keys, that fall surely from the smallest bias to the largest",
    needs="the experiment on an untrained block: `isoscope untrained-block --out RUN`",
)
def query_and_key_norms_grow(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The mean norm, largest bias less smallest, over draws; the weaker of queries and keys."""
    queries, keys = (draws(series, f"block_{kind}_norm") for kind in ("query", "key"))
    cases = {name: Case(weakest([growth(queries[name]), growth(keys[name])]), (0.0,)) for name in queries if name in keys}
    return on_blocks(cases, measure="the growth of the norms of queries or keys, whichever is less,")
