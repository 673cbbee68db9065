"""The verdicts on the papers' claims as strings, for the page and the command line."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from isoscope.claims import decide_claims
from isoscope.claims.claim import Claim, Finding, Verdict
from isoscope.core.errors import Failures
from isoscope.core.wording import format_estimate, format_number


@dataclass(frozen=True)
class FindingRow:
    """A claim on one model."""

    on: str
    outcome: str
    effect: str
    """With its interval."""
    threshold: str
    said: str


@dataclass(frozen=True)
class VerdictRow:
    """A claim with its verdict."""

    number: str
    name: str
    paper: str
    statement: str
    outcome: str
    effect: str
    """With its interval; empty if the tables do not test the claim."""
    threshold: str
    tried_on: str
    said: str
    refuted_by: str
    findings: tuple[FindingRow, ...]


def verdict_rows(table: pd.DataFrame, series: pd.DataFrame, paper: str | None = None, failures: Failures | None = None) -> list[VerdictRow]:
    """Every claim, or those of one paper, by number, with its verdict on these tables; `failures` as in `decide_claims`."""
    return [verdict_row(claim, verdict) for claim, verdict in decide_claims(table, series, paper, failures)]


def verdict_row(claim: Claim, verdict: Verdict) -> VerdictRow:
    """A claim and its verdict as strings."""
    return VerdictRow(
        str(claim.number),
        claim.name,
        claim.paper,
        claim.statement,
        verdict.outcome,
        format_estimate(verdict.effect, verdict.low, verdict.high),
        format_number(verdict.threshold, missing=""),
        tried_on(verdict.findings),
        verdict.sentence,
        claim.refuted_by,
        tuple(
            FindingRow(
                one.on, one.outcome, format_estimate(one.effect, one.low, one.high), format_number(one.threshold, missing=""), one.note
            )
            for one in verdict.findings
        ),
    )


def tried_on(findings: tuple[Finding, ...]) -> str:
    """The model that a claim was tried on, or their number.

    >>> tried_on(())
    ''
    """
    return "" if not findings else findings[0].on if len(findings) == 1 else str(len(findings))
