"""Every claim on tables made for it: it holds on one, fails on the other, and says what to measure where there is nothing."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from isoscope.core.claim import Claim
from isoscope.core.errors import IsoscopeError
from isoscope.papers import claims, judged
from tests.papers.made_claims import (
    CASES,
    EVERY,
    RISING,
    THREE,
    byt5,
    drifting,
    joined,
    layers,
    row,
    several,
    shape,
    tables,
)
from tests.patience import run_process

EVERY_CLAIM = {claim.name: claim for claim in claims()}
OF_ONE_KIND = [
    name
    for name in CASES
    if {one["model"] for one in [*CASES[name][0][0], *CASES[name][0][1]]} == set(THREE) and not name.startswith("drift_explains")
]
"""Claims about models of a kind, on three models."""


def test_every_claim_has_both_tables() -> None:
    assert set(CASES) == set(EVERY_CLAIM)


def test_every_statement_of_both_papers_is_there() -> None:
    assert {claim.number for claim in claims("godey2024")} == set(range(1, 11))
    assert {claim.number for claim in claims("razzhigaev2024")} == set(range(11, 16))
    assert [claim.number for claim in claims()] == sorted(claim.number for claim in claims())
    with pytest.raises(IsoscopeError, match="did you mean godey2024"):
        claims("godey")


@pytest.mark.parametrize("claim", EVERY_CLAIM.values(), ids=EVERY_CLAIM)
@pytest.mark.parametrize(("outcome", "place"), [("holds", 0), ("fails", 1)])
def test_it_is_decided_by_what_the_tables_hold(claim: Claim, outcome: str, place: int) -> None:
    found = claim.decide(*tables(CASES[claim.name][place]))
    assert found.outcome == outcome, found.said
    assert found.findings
    assert found.said[0].isupper()
    assert found.said.endswith(".")
    assert any(
        one.outcome == outcome or claim.name in ("only_characters_are_more_anisotropic", "decoders_rise_above_encoders")
        for one in found.findings
    ) or (claim.number == 4)


@pytest.mark.parametrize("claim", EVERY_CLAIM.values(), ids=EVERY_CLAIM)
def test_without_rows_it_says_what_to_measure(claim: Claim) -> None:
    found = claim.decide(*tables(([], [])))
    assert (found.outcome, found.findings) == ("undecided", ())
    assert claim.needs in found.said
    assert math.isnan(found.effect)


@pytest.mark.parametrize("claim", EVERY_CLAIM.values(), ids=EVERY_CLAIM)
def test_it_is_told_in_words(claim: Claim) -> None:
    assert claim.statement.endswith(".")
    assert claim.refuted_by
    assert not claim.refuted_by.endswith(".")
    assert not claim.needs.endswith(".")


@pytest.mark.parametrize("name", OF_ONE_KIND)
def test_two_models_decide_nothing_about_all(name: str) -> None:
    for made in CASES[name]:
        table, series = tables(made)
        found = EVERY_CLAIM[name].decide(table[table["model"].ne("c")], series[series["model"].ne("c")])
        assert found.outcome == "undecided"
        assert "it takes 3" in found.said


def test_there_are_claims_about_models_of_a_kind() -> None:
    assert len(OF_ONE_KIND) > 15


@pytest.mark.parametrize("claim", EVERY_CLAIM.values(), ids=EVERY_CLAIM)
def test_untrained_twins_and_rows_of_other_claims_decide_nothing(claim: Claim) -> None:
    """All tables at once are read by every claim without an error, and a twin never stands for a model."""
    made = joined(*(pair[0] for pair in CASES.values()))
    table, series = tables(made)
    assert claim.decide(table.drop_duplicates(), series).outcome in ("holds", "fails", "undecided")
    twins = table.assign(model="untrained:" + table["model"])
    found = claim.decide(twins, series.iloc[:0])
    if claim.number in (1, 2, 3, 4, 5, 10):
        assert not found.findings, found.said


def test_it_depends_on_the_threshold() -> None:
    claim = EVERY_CLAIM["every_transformer_has_an_anisotropic_layer"]
    found = claim.decide(*tables(several(THREE, "token", [0.05, 0.15])))
    assert found.outcome == "undecided"
    assert "depends on the threshold" in found.said
    assert all("depends on the threshold" in one.said for one in found.findings)


def test_one_model_that_surely_fails_refutes_a_sentence_about_every_model() -> None:
    made = joined(several(THREE, "token", RISING), several(["d"], "token", [0.01]))
    found = EVERY_CLAIM["every_transformer_has_an_anisotropic_layer"].decide(*tables(made))
    assert found.outcome == "fails"
    assert "surely not in d" in found.said
    assert (found.effect, found.threshold) == (0.75, 0.25)


def test_a_named_model_that_is_not_here_leaves_it_open() -> None:
    claim = EVERY_CLAIM["t5_decoders_are_extreme"]
    table, series = tables(byt5(0.95))
    found = claim.decide(table[table["model"].eq("t5-base")], series)
    assert found.outcome == "undecided"
    assert "not here: ByT5" in found.said
    table, series = tables(byt5(0.6))
    assert claim.decide(table[table["model"].eq("t5-base")], series).outcome == "fails"


def test_without_an_interval_nothing_is_decided() -> None:
    rows = [row(name, "token", "between_cosine", 0.9, float("nan"), layer=1) for name in THREE]
    found = EVERY_CLAIM["every_transformer_has_an_anisotropic_layer"].decide(*tables((rows, [])))
    assert found.outcome == "undecided"
    assert "without an interval" in found.said


def test_a_bell_needs_a_look_without_sinks() -> None:
    claim = EVERY_CLAIM["decoders_are_bell_shaped"]
    found = claim.decide(*tables(shape(THREE, "decoder", 0.3, ("bell", "bell_linear"), EVERY[:3])))
    assert found.outcome == "undecided"
    assert "--split-body sink" in found.said


def test_a_short_model_has_no_part_in_the_pooled_correlation() -> None:
    claim = EVERY_CLAIM["drift_explains_token_models"]
    made = joined(drifting(THREE, "token", 1), drifting(["short"], "token", -1, 7))
    found = claim.decide(*tables(made))
    assert found.outcome == "holds"
    assert "left out: 1 with fewer than 12 layers" in found.said
    excepted = joined(drifting(THREE[:2], "token", 1), drifting(["gpt2"], "decoder", 1))
    assert claim.decide(*tables(excepted)).outcome == "undecided"


def test_rectified_features_leave_convolutions_open() -> None:
    rows = [one | {"null": 0.318} for name in "abcdef" for one in layers(name, "convolution", [0.33, 0.32])]
    found = EVERY_CLAIM["most_convolutions_are_isotropic"].decide(*tables((rows, [])))
    assert found.outcome == "undecided"
    assert "1/π" in found.said


def test_the_last_step_stands_for_a_suite() -> None:
    claim = EVERY_CLAIM["every_transformer_has_an_anisotropic_layer"]
    steps = [
        one | {"step": step, "seed": 0, "revision": str(step)}
        for name in THREE
        for step, value in ((0, 0.01), (100, 0.6))
        for one in layers(name, "trained", [value])
    ]
    found = claim.decide(*tables((steps, [])))
    assert found.outcome == "holds"
    assert [one.effect for one in found.findings] == [0.6] * 3


def test_all_claims_are_judged_in_order() -> None:
    table, series = tables(joined(*(pair[0] for pair in CASES.values())))
    found = judged(table.drop_duplicates(), series)
    assert [claim.name for claim, _ in found] == [claim.name for claim in claims()]
    assert {claim.paper for claim, _ in judged(table, series, "razzhigaev2024")} == {"razzhigaev2024"}


def test_a_plugin_adds_a_claim(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    import pathlib
    import sys

    folder = pathlib.Path(str(tmp_path)) / "claims"
    folder.mkdir()
    (folder / "mine.py").write_text(
        "from isoscope.core.claim import NOTHING, claim\n"
        "@claim(number=99, paper='mine', statement='It is so.', refuted_by='it not being so', needs='a look')\n"
        "def mine(table, series):\n    return NOTHING\n"
    )
    code = "from isoscope.papers import claims; print([c.name for c in claims('mine')])"
    monkeypatch.setenv("ISOSCOPE_PLUGINS", str(tmp_path))
    ended = run_process([sys.executable, "-c", code], check=True)
    assert ended.stdout.strip() == "['mine']"


def test_rows_of_several_runs_count_once() -> None:
    made = several(THREE, "token", RISING)
    table, series = tables(joined(made, made))
    found = EVERY_CLAIM["every_transformer_has_an_anisotropic_layer"].decide(pd.concat([table, table]), series)
    assert len(found.findings) == 3


@pytest.mark.parametrize("name", ["decoders_rise_above_encoders", "mask_makes_the_bell", "mask_makes_the_share"])
def test_models_of_different_n_are_not_put_next_to_each_other(name: str) -> None:
    """B and the top share depend on n. At equal n the claim is decided, at different n it says which n."""
    table, series = tables(CASES[name][0])
    equal = table.assign(interval_about="this n", n=5000)
    assert EVERY_CLAIM[name].decide(equal, series).outcome == "holds"
    found = EVERY_CLAIM[name].decide(equal.assign(n=equal["n"].where(table["model"].ne(table["model"].iloc[0]), 4000)), series)
    assert found.outcome == "undecided"
    assert found.said.startswith("Not compared: n differs (4,000 to 5,000) and ")
    assert found.said.endswith("depends on n; measure all of them with --max-tokens 4000.")
    assert math.isnan(found.effect)
    of_population = equal.assign(interval_about="population", n=range(4000, 4000 + 100 * len(equal), 100))
    assert EVERY_CLAIM[name].decide(of_population, series).outcome == "holds"
