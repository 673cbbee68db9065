"""The papers on the page and the command line: the verdicts on their claims as strings, and links to their figures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd

from isoscope.claims import decide_claims, papers
from isoscope.claims.claim import Claim, Finding, Verdict
from isoscope.claims.deciding import FEWEST_MODELS
from isoscope.claims.paper import Paper
from isoscope.claims.verdicts import drop_too_few_units
from isoscope.core.errors import Failures
from isoscope.core.wording import format_count, format_estimate, format_list, format_number
from isoscope.report.charts import Drawing

OUTCOMES = {
    "holds": ("holds", "hold"),
    "fails": ("fails", "fail"),
    "undecided": ("is undecided", "are undecided"),
    "error": ("ends in an error", "end in an error"),
}
"""The verb of each outcome for one claim and for several."""


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

    def describe(effect: Verdict | Finding) -> tuple[str, str]:
        return format_estimate(effect.effect, effect.low, effect.high), format_number(effect.threshold, missing="")

    about = str(claim.number), claim.name, claim.paper, claim.statement, verdict.outcome, *describe(verdict)
    findings = tuple(FindingRow(finding.on, finding.outcome, *describe(finding), finding.note) for finding in verdict.findings)
    # The name of a single model says more than the number 1.
    tried_on = findings[0].on if len(findings) == 1 else str(len(findings) or "")
    return VerdictRow(*about, tried_on, verdict.sentence, claim.refuted_by, findings)


@dataclass(frozen=True)
class PaperSection:
    """A paper: the claims that these tables test, those that they do not, and its figures."""

    name: str
    title: str
    authors: str
    counts: str
    tested: list[VerdictRow]
    untested: list[VerdictRow]
    figures: list[tuple[str, str, str]]
    """The number of each figure in the paper, its subject, and its id on the page."""


def figure_citations() -> dict[str, str]:
    """The figures of papers that each figure shows, in words, by the name of the figure."""
    citations: dict[str, list[str]] = {}
    for paper in papers:
        numbers: dict[str, list[str]] = {}
        for figure in paper.figures:
            for name in figure.draws:
                numbers.setdefault(name, []).append(figure.number)
        for name, known in numbers.items():
            citations.setdefault(name, []).append(cite_figures(known, paper))
    return {name: "; ".join(words) for name, words in citations.items()}


def cite_figures(numbers: list[str], paper: Paper) -> str:
    """Figures by number and paper; without a number, the paper alone."""
    numbered = [number for number in numbers if number[0].isdigit()]
    plural = "s" if len(numbered) > 1 else ""
    return f"Figure{plural} {', '.join(numbered)} of {paper.authors}" if numbered else f"Shown in {paper.authors}"


def paper_sections(charts: Iterable[Drawing], verdicts: list[VerdictRow]) -> list[PaperSection]:
    """Every paper with a claim that the tables test, or with a figure on the page."""
    # A figure may be on the page several times, once per training; reversed, so that a link leads to the first of them.
    ids_by_name = {chart.figure.name: chart.id for chart in reversed(list(charts))}
    sections = []
    for paper in papers:
        own = [row for row in verdicts if row.paper == paper.name]
        tested = [row for row in own if row.findings or row.outcome == "error"]
        untested = [row for row in own if row not in tested]
        drawn = [(figure, [ids_by_name[name] for name in figure.draws if name in ids_by_name]) for figure in paper.figures]
        figures = [(figure.number, figure.shows, ids[0]) for figure, ids in drawn if ids]
        if tested or figures:
            sections.append(
                PaperSection(
                    paper.name,
                    paper.title,
                    paper.authors,
                    describe_outcomes(tested),
                    sort_by_outcome(tested),
                    untested,
                    figures,
                )
            )
    return sections


def sort_by_outcome(rows: list[VerdictRow]) -> list[VerdictRow]:
    """Errors of ours first, then claims that hold, fail and are undecided, each by number."""
    order = ["error", *(word for word in OUTCOMES if word != "error")]
    return sorted(rows, key=lambda row: order.index(row.outcome))


def explain_undecided(rows: list[VerdictRow], models: int) -> str:
    """A sentence if tested claims are undecided because the run has too few models, else nothing.

    Claims that are undecided for another reason are not counted: their own sentences say why.
    """
    undecided = sum(row.outcome == "undecided" and drop_too_few_units(row.said) != row.said for row in rows if row.findings)
    if models >= FEWEST_MODELS or not undecided:
        return ""
    needs = (
        f"{format_count(undecided, 'claim')} about kinds of models {'needs' if undecided == 1 else 'need'} at least {FEWEST_MODELS} models"
    )
    return f"{needs}; this run has {models}."


def describe_outcomes(rows: list[VerdictRow]) -> str:
    """The number of claims that hold, fail and are undecided, in a sentence; nothing if there are no claims."""
    numbers = [(sum(row.outcome == outcome for row in rows), words) for outcome, words in OUTCOMES.items()]
    parts = [f"{number} {singular if number == 1 else plural}" for number, (singular, plural) in numbers if number]
    return f"Of {len(rows)} claims that this run tests, {format_list(parts)}." if rows else ""
