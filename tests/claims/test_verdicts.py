"""Verdicts on several models: their sentence, their numbers, and the comparison of two groups."""

from __future__ import annotations

import pandas as pd
import pytest
from scipy.stats import mannwhitneyu

from isoscope.claims.claim import Finding
from isoscope.claims.verdicts import compare_groups, decide_findings, decide_models
from isoscope.estimation.inference import Estimate, welch
from tests.claims.made_rows import row, tables

NARROW = Estimate(0.5, 0.49, 0.51)


def test_a_verdict_quotes_its_evidence() -> None:
    verdict = decide_models(dict.fromkeys("abc", NARROW), 0.1, measure="the number")
    assert verdict.sentence == "The number is surely above 0.1 in 3 of 3 models; least in a: 0.500 [0.490, 0.510]."
    assert (verdict.outcome, verdict.effect, verdict.threshold) == ("holds", 1.0, 0.25)


def test_the_weakest_model_is_quoted() -> None:
    effects = {"a": NARROW, "b": Estimate(0.2, 0.05, 0.3, "layer 3"), "c": Estimate(0.3, 0.05, 0.4)}
    verdict = decide_models(effects, {"a": (0.1,), "b": (0.15,), "c": (0.1,)}, measure="the number")
    assert verdict.sentence == "The number is surely above its threshold in 1 of 3 models; least in b: 0.200 [0.0500, 0.300] (layer 3)."
    below = decide_models({"resnet-50": NARROW}, 0.1, measure="the number", names=["ResNet-50"], above=False)
    assert (
        below.sentence
        == "The number is surely below 0.1 in 0 of 1 model, surely not in resnet-50; most in resnet-50: 0.500 [0.490, 0.510]."
    )
    assert (below.outcome, below.effect, below.threshold) == ("fails", 0.5, 0.1)


def test_findings_decide_about_every_training() -> None:
    findings = [Finding(name, "holds", 1.0, 0.5, 1.0, 0.5, "5 seeds") for name in "abcd"]
    verdict = decide_findings(findings, measure="it rises")
    assert (
        verdict.sentence
        == "It rises in 4 of 4 suites; a: 1.00 [0.500, 1.00], 5 seeds; b: 1.00 [0.500, 1.00], 5 seeds; c: 1.00 [0.500, 1.00], 5 seeds."
    )
    assert (verdict.outcome, verdict.effect, verdict.threshold) == ("holds", 1.0, 0.25)


def group_rows(names: str, first: float) -> dict[str, pd.DataFrame]:
    """One row per model, each 0.1 above the one before it."""
    return {name: tables(([row(name, "token", "bell", first + 0.1 * i)], []))[0] for i, name in enumerate(names)}


def test_two_groups_are_compared_by_permutation() -> None:
    high, low = group_rows("abcd", 1.0), group_rows("efgh", 0.0)
    values = [[float(rows["value"].iloc[0]) for rows in group.values()] for group in (high, low)]
    verdict = compare_groups(high, low, measure="it", names=("ones", "others"))
    assert (verdict.outcome, mannwhitneyu(*values, method="exact").pvalue < 0.05) == ("holds", True)
    gap = welch(*values)
    assert (verdict.effect, verdict.low, verdict.high) == pytest.approx((gap.value, gap.low, gap.high))
    verdict = compare_groups(group_rows("abc", 1.0), group_rows("efg", 0.0), measure="it", names=("ones", "others"))
    assert (verdict.outcome, verdict.low > 0) == ("undecided", True), "three against three can be no surer than p = 0.1"
    assert "p = 0.1" in verdict.sentence
    assert "it takes at least 3 of each" in compare_groups(high, group_rows("ef", 0.0), measure="it", names=("ones", "others")).sentence
