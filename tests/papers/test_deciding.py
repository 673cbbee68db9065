"""Verdicts from intervals: Holm keeps the chance of a false one at 5 %, models are the units, thresholds must agree."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import mannwhitneyu, norm, ttest_1samp

from isoscope.statistics.deciding import Case, agreed, by_threshold, every, most, outcome, outcomes, p_value
from isoscope.statistics.evidence import is_named
from isoscope.statistics.inference import Estimate, student, welch
from isoscope.statistics.verdicts import compared, judged

FAR, NEAR = Estimate(0.5, 0.4, 0.6), Estimate(0.5, 0.49, 0.51)


def test_holm_keeps_false_verdicts_at_five_percent() -> None:
    """Five models whose true effect is the threshold: how often does any of them hold, or fail?"""
    rng = np.random.default_rng(0)
    wrong = {"plain": 0, "holm": 0}
    for values in rng.normal(size=(2000, 5)):
        effects = [Estimate(float(x), float(x) - 1.96, float(x) + 1.96) for x in values]
        wrong["plain"] += any(outcome(effect, 0.0) != "undecided" for effect in effects)
        wrong["holm"] += any(word != "undecided" for word in outcomes(effects, [0.0] * 5))
    assert wrong["plain"] / 2000 > 0.18
    assert wrong["holm"] / 2000 == pytest.approx(0.05, abs=0.015)


def test_one_effect_is_decided_by_its_interval_alone() -> None:
    for low, high in ((0.11, 0.2), (0.09, 0.2), (0.0, 0.09), (-1.0, 1.0)):
        effect = Estimate((low + high) / 2, low, high)
        assert outcomes([effect], [0.1]) == [outcome(effect, 0.1)]
        assert outcomes([effect], [0.1], above=False) == [outcome(effect, 0.1, above=False)]


def test_p_belongs_to_the_end_that_faces_the_threshold() -> None:
    assert p_value(Estimate(1.0, 0.5, 9.0), 0.5) == pytest.approx(0.05)
    assert p_value(Estimate(1.0, -9.0, 1.5), 1.5) == pytest.approx(0.05)
    assert p_value(Estimate(1.0, 1.0, 1.0), 0.5) == 0.0
    assert p_value(Estimate(1.0, 1.0, 1.0), 1.0) == 1.0


def test_p_of_few_seeds_and_of_correlations_is_that_of_their_own_scale() -> None:
    """Three seeds: Student's t, whose tails are fat. A correlation: Fisher's z, on which its interval is even."""
    few = student([1.0, 1.2, 1.5])
    assert p_value(few, 0.0) == pytest.approx(ttest_1samp([1.0, 1.2, 1.5], 0).pvalue)
    z, error = np.arctanh(0.9), 0.36
    ends = np.tanh([z, z - 1.959964 * error, z + 1.959964 * error])
    assert p_value(Estimate(*ends, scale=np.arctanh), 0.3) == pytest.approx(2 * norm.sf((z - np.arctanh(0.3)) / error), rel=1e-4)


def test_every_threshold_has_its_own_holm() -> None:
    found = by_threshold({"a": Case(FAR, (0.1, 0.45)), "b": Case(NEAR, (0.1, 0.45))})
    assert found == [{"a": "holds", "b": "holds"}, {"a": "undecided", "b": "holds"}]
    assert agreed([at["a"] for at in found]) == "undecided"


@pytest.mark.parametrize(
    ("held", "failed", "open_", "wanted"),
    [
        (3, 0, 0, "holds"),
        (2, 0, 0, "undecided"),
        (3, 0, 1, "undecided"),
        (9, 1, 0, "fails"),
        (0, 2, 0, "undecided"),
        (0, 0, 3, "undecided"),
    ],
)
def test_a_sentence_about_every_model(held: int, failed: int, open_: int, wanted: str) -> None:
    assert every(["holds"] * held + ["fails"] * failed + ["undecided"] * open_).outcome == wanted


@pytest.mark.parametrize(
    ("held", "failed", "open_", "wanted"),
    [(6, 0, 0, "holds"), (5, 0, 0, "undecided"), (0, 6, 0, "fails"), (20, 4, 0, "holds"), (6, 0, 6, "undecided"), (12, 8, 0, "undecided")],
)
def test_a_sentence_about_most_models(held: int, failed: int, open_: int, wanted: str) -> None:
    assert most(["holds"] * held + ["fails"] * failed + ["undecided"] * open_).outcome == wanted


def test_the_interval_of_a_part_knows_what_is_undecided() -> None:
    sure, unsure = every(["holds"] * 4).effect, every(["holds", "holds", "undecided", "undecided"]).effect
    assert sure.low == pytest.approx(0.3976, abs=1e-4)
    assert (sure.value, unsure.value) == (1.0, 0.5)
    assert unsure.low < sure.low
    assert unsure.high == 1.0


def test_two_groups_are_compared_by_permutation() -> None:
    ones, others = {f"a{i}": 1 + 0.1 * i for i in range(4)}, {f"b{i}": 0.1 * i for i in range(4)}
    p = mannwhitneyu(list(ones.values()), list(others.values()), method="exact").pvalue
    found = compared(ones, others, welch(list(ones.values()), list(others.values())), measure="it", names=("as", "bs"))
    assert (found.outcome, p < 0.05) == ("holds", True)
    few, fewer = dict(list(ones.items())[:3]), dict(list(others.items())[:3])
    found = compared(few, fewer, welch(list(few.values()), list(fewer.values())), measure="it", names=("as", "bs"))
    assert (found.outcome, found.low > 0) == ("undecided", True), "three against three can be no surer than p = 0.1"
    assert "p = 0.1" in found.said


def test_a_verdict_tells_what_it_saw() -> None:
    found = judged({name: Case(NEAR, (0.1,)) for name in "abc"}, measure="the number")
    assert found.said == "The number is surely above 0.1 in 3 of 3 models; least in a: 0.5 [0.49, 0.51]."
    assert (found.outcome, found.effect, found.threshold) == ("holds", 1.0, 0.25)


@pytest.mark.parametrize(
    ("model", "name", "wanted"),
    [
        ("openai-community/gpt2", "GPT-2", True),
        ("gpt2-medium", "GPT-2", True),
        ("google/vit-base-patch16-224", "ViT", True),
        ("vit_base_patch14_dinov2", "ViT", False),
        ("nvidia/mit-b0", "MiT", True),
        ("my-limit-b0", "MiT", False),
        ("google/byt5-small", "T5", False),
        ("google-t5/t5-base", "T5", True),
        ("almanach/manta-lm-base", "MANTa-base", True),
        ("google/canine-c", "CANINE-c", True),
        ("google/canine-s", "CANINE-c", False),
        ("facebook/hubert-base-ls960", "HuBERT", True),
        ("openai/whisper-base.en", "Whisper-base", True),
        ("microsoft/resnet-50", "ResNet-50", True),
        ("resnet-101", "ResNet-50", False),
        ("facebook/convnext-tiny-224", "ConvNeXt", True),
    ],
)
def test_models_are_known_by_their_names(model: str, name: str, wanted: bool) -> None:
    assert is_named(model, name) is wanted
