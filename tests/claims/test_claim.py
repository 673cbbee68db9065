"""A section adds its claims, and a claim without rows asks for what it needs."""

from __future__ import annotations

import pandas as pd

from isoscope.claims.claim import UNTESTED, Finding, Section, Verdict

EMPTY = pd.DataFrame()


def test_claims_share_what_their_section_says() -> None:
    section = Section("paper", 3, needs="a model")
    section.add_claim("first", statement="A.", refuted_by="not A", decide=lambda table, series: UNTESTED)

    @section.claim(statement="B.", refuted_by="not B", needs="two models")
    def second(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
        return UNTESTED

    assert [(claim.name, claim.paper, claim.number, claim.needs) for claim in section] == [
        ("first", "paper", 3, "a model"),
        ("second", "paper", 3, "two models"),
    ]
    assert section[1] is second


def test_only_an_untested_claim_asks_for_a_measurement() -> None:
    section = Section("paper", 1, needs="a model")
    tested = Verdict("holds", "", (Finding("m", "holds", 1.0, 0.9, 1.1, 0.5),))
    verdicts = {"untested": UNTESTED, "tested": tested, "explained": Verdict("undecided", "No head has an onset.")}
    for name, verdict in verdicts.items():
        section.add_claim(name, statement="A.", refuted_by="not A", decide=lambda table, series, verdict=verdict: verdict)
    sentences = {claim.name: claim.decide(EMPTY, EMPTY).sentence for claim in section}
    assert sentences == {
        "untested": "Not tested. It needs a model.",
        "tested": "",
        "explained": "No head has an onset.",
    }
