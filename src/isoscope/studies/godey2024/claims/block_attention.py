"""Statement 7: with a larger bias, the scores of an untrained block leave zero and spread, queries and keys grow, and rows sharpen."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from isoscope.claims.claim import UNTESTED, Decide, Finding, Outcome, Section, Verdict
from isoscope.claims.evidence import cosine_thresholds, row_estimates
from isoscope.estimation.inference import clopper_pearson, least_of
from isoscope.studies.godey2024.claims._block_evidence import (
    NEEDS,
    bias_curves,
    block_rows,
    decide_published_block,
    growth,
    is_published_block,
)
from isoscope.trust.safe_io import parse_object

BERT_HEAD = 64
"""The dimensions of a head of BERT-base."""


def decide_growth(signs: Mapping[str, int], *, measure: str, relative: bool = False) -> Decide:
    """A function that decides whether curves of the block change with the bias as claimed: the weakest of the changes.

    `signs` has 1 for a curve that is claimed to rise and −1 for one that is claimed to fall. `relative` divides each draw by its value at
    the smallest bias, so that different quantities can be compared.
    """

    def decide(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
        curves = {name: bias_curves(series, name) for name in signs}
        # A run may hold some of the curves only; a block needs all of them.
        blocks = [block for block in next(iter(curves.values())) if all(block in by_block for by_block in curves.values())]
        effects = {}
        for block in blocks:
            own = {name: by_block[block].sort_index(axis=1) for name, by_block in curves.items()}
            own = {name: wide.div(wide.iloc[:, 0], axis=0) if relative else wide for name, wide in own.items()}
            effects[block] = least_of([growth(wide).linear(signs[name]) for name, wide in own.items()])
        return decide_published_block(effects, measure=measure)

    return decide


section = Section("godey2024", 7, NEEDS)

section.add_claim(
    "scores_leave_zero",
    statement="The scores of an untrained block move away from zero as the bias grows.",
    refuted_by="mean scores of heads that come surely nearer to zero from the smallest bias to the largest",
    decide=decide_growth({"block_score_offset": 1}, measure="the growth of the size of a head's mean score"),
)
section.add_claim(
    "score_variance_grows",
    statement="The spread of the scores of an untrained block grows with the bias.",
    refuted_by="a standard deviation of scores that falls surely from the smallest bias to the largest",
    decide=decide_growth({"block_score_sd": 1}, measure="the growth of the standard deviation of scores"),
)
section.add_claim(
    "query_and_key_norms_grow",
    statement="The norms of the queries and keys of an untrained block grow with the bias.",
    refuted_by="norms of queries, or of keys, that fall surely from the smallest bias to the largest",
    decide=decide_growth(
        {"block_query_norm": 1, "block_key_norm": 1}, measure="the growth of the norms of queries or keys, whichever is less,"
    ),
)
section.add_claim(
    "rows_sharpen_with_bias",
    statement="Rows of attention of an untrained block sharpen as the bias grows: maximum up, minimum down, entropy down.",
    refuted_by="a maximum that surely falls, a minimum or an entropy that surely rises from the smallest bias to the largest",
    decide=decide_growth(
        {"block_row_max": 1, "block_row_min": -1, "block_entropy": -1},
        relative=True,
        measure="the relative sharpening by maximum, minimum or entropy, whichever is least,",
    ),
)


@section.claim(
    statement="The sign of the scores is random: both signs occur over draws of the weights.",
    refuted_by="one sign in all of six draws or more",
    needs="the experiment on an untrained block, six draws or more: `isoscope untrained-block --draws 10 --out RUN`",
)
def score_sign_is_drawn(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The share of draws whose mean score at the largest bias is positive."""
    curves = {name: curve for name, curve in bias_curves(series, "block_score_mean").items() if is_published_block(name)}
    if not curves:
        return UNTESTED
    name, curve = next(iter(curves.items()))
    ends = curve.sort_index(axis=1).iloc[:, -1].dropna()
    wins, n = int((ends > 0).sum()), len(ends)
    low, high = clopper_pearson(wins, n)
    outcome: Outcome = "holds" if 0 < wins < n else "fails" if not low <= 0.5 <= high else "undecided"
    sentence = f"The mean score at the largest bias is positive in {wins} of {n} draws."
    return Verdict(outcome, sentence, (Finding(name, outcome, wins / n, low, high, 0.5),), wins / n, low, high, 0.5)


@section.claim(
    statement="The queries and keys of an untrained block are anisotropic even without a bias.",
    refuted_by="a cosine of queries, or of keys, that lies surely below the threshold at the smallest bias",
    needs="the experiment on an untrained block, with a norm of 0 in its grid: `isoscope untrained-block --norms 0,1,5,30 --out RUN`",
)
def queries_and_keys_are_anisotropic_without_bias(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The cosine at the smallest bias, above all three thresholds in a head's own dimensions; the weaker of queries and keys."""
    queries, keys = (block_rows(table, f"{kind}_cosine_unbiased") for kind in ("query", "key"))
    measured = [name for name in queries if name in keys and queries[name]["value"].notna().all()]
    effects = {name: least_of([row_estimates(queries[name])[0], row_estimates(keys[name])[0]]) for name in measured}
    thresholds = {name: cosine_thresholds(head_dimension(queries[name]["spec"].iloc[0])) for name in measured}
    return decide_published_block(effects, thresholds, measure="the cosine of queries or keys at the smallest bias, whichever is less,")


def head_dimension(spec: object) -> int:
    """The dimensions of a head, from the experiment's settings; BERT's where these lack them."""
    match parse_object(spec):
        case {"d": int(d), "heads": int(heads)} if 0 < heads <= d:
            return d // heads
    return BERT_HEAD
