"""Every claim holds on one table made for it, fails on another, and asks for a measurement where there is none."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest

from isoscope.claims import claims, decide_claims
from isoscope.claims.claim import Claim
from isoscope.core.errors import IsoscopeError
from tests.claims.made_claims import CASES
from tests.claims.made_rows import THREE, join_tables, tables
from tests.patience import run_process

EVERY_CLAIM = {claim.name: claim for claim in claims()}
ABOUT_A_KIND = [
    name
    for name in CASES
    if {row["model"] for row in [*CASES[name][0][0], *CASES[name][0][1]]} == set(THREE) and not name.startswith("drift_explains")
]
"""Claims about models of a kind, tested on three models."""
GROUP_COMPARISONS = ("only_characters_are_more_anisotropic", "decoders_rise_above_encoders")
"""Claims that compare groups: no single model decides anything."""
ABOUT_BLOCKS = (6, 7)
"""Statements about the untrained block: the first finding is about the published block, and it alone decides."""


def test_every_claim_has_both_tables() -> None:
    assert set(CASES) == set(EVERY_CLAIM)


def test_every_statement_of_both_papers_has_a_claim() -> None:
    assert {claim.number for claim in claims("godey2024")} == set(range(1, 11))
    assert {claim.number for claim in claims("razzhigaev2024")} == set(range(11, 16))
    assert [claim.number for claim in claims()] == sorted(claim.number for claim in claims())
    with pytest.raises(IsoscopeError, match="did you mean godey2024"):
        claims("godey")


@pytest.mark.parametrize("claim", EVERY_CLAIM.values(), ids=EVERY_CLAIM)
@pytest.mark.parametrize(("outcome", "place"), [("holds", 0), ("fails", 1)])
def test_a_claim_is_decided_by_the_tables(claim: Claim, outcome: str, place: int) -> None:
    verdict = claim.decide(*tables(CASES[claim.name][place]))
    assert verdict.outcome == outcome, verdict.sentence
    assert verdict.sentence[0].isupper()
    assert verdict.sentence.endswith(".")
    deciding = verdict.findings[:1] if claim.number in ABOUT_BLOCKS else verdict.findings
    wanted = "undecided" if claim.name in GROUP_COMPARISONS else outcome
    assert {finding.outcome for finding in deciding} == {wanted}


@pytest.mark.parametrize("claim", EVERY_CLAIM.values(), ids=EVERY_CLAIM)
def test_without_rows_a_claim_asks_for_its_measurement(claim: Claim) -> None:
    verdict = claim.decide(*tables(([], [])))
    assert (verdict.outcome, verdict.findings) == ("undecided", ())
    assert claim.needs in verdict.sentence
    assert math.isnan(verdict.effect)


@pytest.mark.parametrize("claim", EVERY_CLAIM.values(), ids=EVERY_CLAIM)
def test_a_claim_is_written_out(claim: Claim) -> None:
    assert claim.statement.endswith(".")
    assert claim.refuted_by
    assert not claim.refuted_by.endswith(".")
    assert claim.needs
    assert not claim.needs.endswith(".")


@pytest.mark.parametrize("name", ABOUT_A_KIND)
def test_two_models_decide_nothing_about_all(name: str) -> None:
    for made in CASES[name]:
        table, series = tables(made)
        verdict = EVERY_CLAIM[name].decide(table[table["model"].ne("c")], series[series["model"].ne("c")])
        assert verdict.outcome == "undecided"
        assert "takes at least 3" in verdict.sentence


def test_many_claims_are_about_models_of_a_kind() -> None:
    assert len(ABOUT_A_KIND) > 15


@pytest.mark.parametrize("claim", EVERY_CLAIM.values(), ids=EVERY_CLAIM)
def test_untrained_twins_and_rows_of_other_claims_decide_nothing(claim: Claim) -> None:
    """Every claim reads all tables at once without an error, and a twin never stands for a model."""
    table, series = tables(join_tables(*(pair[0] for pair in CASES.values())))
    assert claim.decide(table.drop_duplicates(), series).outcome in ("holds", "fails", "undecided")
    twins = table.assign(model="untrained:" + table["model"])
    verdict = claim.decide(twins, series.iloc[:0])
    if claim.number in (1, 2, 3, 4, 5, 10):
        assert not verdict.findings, verdict.sentence


def test_claims_are_decided_in_order() -> None:
    table, series = tables(join_tables(*(pair[0] for pair in CASES.values())))
    decided = decide_claims(table.drop_duplicates(), series)
    assert [claim.name for claim, _ in decided] == [claim.name for claim in claims()]
    assert {claim.paper for claim, _ in decide_claims(table, series, "razzhigaev2024")} == {"razzhigaev2024"}


def test_a_plugin_adds_a_claim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "claims").mkdir()
    (tmp_path / "claims" / "mine.py").write_text(
        "from isoscope.plugins import UNTESTED, Section\n"
        "section = Section('mine', 99, needs='a look')\n"
        "@section.claim(statement='It is so.', refuted_by='it not being so')\n"
        "def mine(table, series):\n    return UNTESTED\n"
    )
    code = "from isoscope.claims import claims; print([c.name for c in claims('mine')])"
    monkeypatch.setenv("ISOSCOPE_PLUGINS", str(tmp_path))
    ended = run_process([sys.executable, "-c", code], check=True)
    assert ended.stdout.strip() == "['mine']"
