"""The papers' claims and what the tables say about them, as strings for the page and the command line."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd

from isoscope.core.claim import Claim, Finding, Verdict
from isoscope.core.failures import Failures
from isoscope.papers import decide_claims
from isoscope.report.line import show


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
    """With its interval; empty where nothing speaks to the claim."""
    threshold: str
    tried_on: str
    said: str
    refuted_by: str
    findings: tuple[FindingRow, ...]


def verdicts(table: pd.DataFrame, series: pd.DataFrame, paper: str | None = None, failures: Failures | None = None) -> list[VerdictRow]:
    """Every claim, or those of one paper, by number, with what these tables say about it; `failures` as in `decide_claims`."""
    return [verdict_row(claim, verdict) for claim, verdict in decide_claims(table, series, paper, failures)]


def verdict_row(claim: Claim, verdict: Verdict) -> VerdictRow:
    """A claim and its verdict in strings."""
    return VerdictRow(
        str(claim.number),
        claim.name,
        claim.paper,
        claim.statement,
        verdict.outcome,
        with_interval(verdict.effect, verdict.low, verdict.high),
        number(verdict.threshold),
        tried_on(verdict.findings),
        verdict.sentence,
        claim.refuted_by,
        tuple(
            FindingRow(one.on, one.outcome, with_interval(one.effect, one.low, one.high), number(one.threshold), one.note)
            for one in verdict.findings
        ),
    )


def with_interval(effect: float, low: float, high: float) -> str:
    """An effect and its interval; nothing where there is none.

    >>> with_interval(0.5, 0.25, 1.0), with_interval(0.5, float("nan"), float("nan")), with_interval(float("nan"), 0.0, 1.0)
    ('0.500 [0.250, 1.00]', '0.500', '')
    """
    if not math.isfinite(effect):
        return ""
    return f"{show(effect)} [{show(low)}, {show(high)}]" if math.isfinite(low) and math.isfinite(high) else show(effect)


def number(x: float) -> str:
    """A number, or nothing where it is none."""
    return show(x) if math.isfinite(x) else ""


def tried_on(findings: tuple[Finding, ...]) -> str:
    """The model that a claim was tried on, or how many there were.

    >>> tried_on(())
    ''
    """
    return "" if not findings else findings[0].on if len(findings) == 1 else str(len(findings))
