"""Claim 7: queries and keys are anisotropic even without bias."""

from __future__ import annotations

import pandas as pd

from isoscope.core.bounded import parsed_object
from isoscope.core.claim import Verdict, claim
from isoscope.statistics.block_evidence import block_rows
from isoscope.statistics.chance import one_pair
from isoscope.statistics.deciding import Case, weakest
from isoscope.statistics.evidence import FIXED, estimates
from isoscope.statistics.verdicts import on_blocks

HEAD = 64


@claim(
    number=7,
    paper="godey2024",
    statement="The queries and keys of an untrained block are anisotropic even without a bias.",
    refuted_by="a cosine of queries, or of keys, that lies surely below the threshold at the smallest bias",
    needs="the experiment on an untrained block, with a norm of 0 in its grid: `isoscope untrained-block --norms 0,1,5,30 --out RUN`",
)
def queries_and_keys_are_anisotropic_without_bias(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The cosine at the smallest bias, above all three thresholds in a head's own dimensions; the weaker of queries and keys."""
    queries, keys = (block_rows(table, f"{kind}_cosine_unbiased") for kind in ("query", "key"))
    cases = {}
    for name in queries:
        if name in keys and queries[name]["value"].notna().all():
            least = weakest([estimates(queries[name])[0], estimates(keys[name])[0]])
            cases[name] = Case(least, (one_pair(head_dimension(queries[name]["spec"].iloc[0])), *FIXED))
    return on_blocks(cases, measure="the cosine of queries or keys at the smallest bias, whichever is less,")


def head_dimension(spec: object) -> int:
    """The dimensions of a head, as the experiment says them; BERT's where it does not."""
    match parsed_object(spec):
        case {"d": int(d), "heads": int(heads)} if 0 < heads <= d:
            return d // heads
    return HEAD
