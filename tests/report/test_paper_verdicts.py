"""The papers' claims and figures on the page: each where it belongs, in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from isoscope.claims import papers
from isoscope.claims.claim import Claim, Finding, Verdict
from isoscope.claims.verdicts import too_few_units
from isoscope.figures import figures
from isoscope.report.charts import Drawing, place_on_page
from isoscope.report.paper_verdicts import (
    FindingRow,
    VerdictRow,
    describe_outcomes,
    explain_undecided,
    figure_citations,
    paper_sections,
    verdict_row,
)


def claim(name: str, outcome: str, *, tested: bool = True, paper: str = "godey2024") -> VerdictRow:
    findings = (FindingRow("m", outcome, "0.5", "0.1", ""),) if tested else ()
    return VerdictRow("1", name, paper, f"{name} is so.", outcome, "0.5", "0.1", "m", "It is.", "The opposite.", findings)


def test_a_figure_says_which_figure_of_which_paper_it_is():
    words = figure_citations()
    authors = papers["godey2024"].authors
    assert words["training_clouds"] == f"Figure 11 of {authors}"
    assert words["training_paths"] == f"Figures 12a, 12b of {authors}"
    assert all(name in words for paper in papers for figure in paper.figures for name in figure.draws)


def test_claims_stand_under_their_paper_with_those_that_are_decided_first():
    rows = [claim("a", "undecided"), claim("b", "fails"), claim("c", "holds"), claim("d", "undecided", tested=False)]
    (paper,) = paper_sections([], rows)
    assert [row.name for row in paper.tested] == ["c", "b", "a"]
    assert [row.name for row in paper.untested] == ["d"]
    assert paper.counts == "Of 3 claims that this run tests, 1 holds, 1 fails and 1 is undecided."
    assert describe_outcomes([claim("a", "holds"), claim("b", "holds")]) == "Of 2 claims that this run tests, 2 hold."


def test_a_paper_without_claims_or_figures_here_is_left_out():
    assert paper_sections([], [claim("d", "undecided", tested=False)]) == []
    (paper,) = paper_sections(place_on_page([Drawing(figures["token_models"], [])]), [])
    assert paper.figures == [("1", papers["godey2024"].select_figures("1")[0].shows, "token_models")]


def test_the_page_says_once_why_two_models_decide_nothing():
    """Claims that are undecided for another reason are not counted: their own sentences say why."""
    few = f"It is so in 1 of 1 model; {too_few_units('model')}."
    rows = [replace(claim("a", "undecided"), said=few), claim("b", "fails"), replace(claim("c", "undecided"), said=few)]
    rows += [claim("d", "undecided", tested=False), claim("e", "undecided"), replace(claim("f", "fails"), said=few)]
    assert explain_undecided(rows, 2) == "2 claims about kinds of models need at least 3 models; this run has 2."
    assert explain_undecided(rows, 3) == ""
    assert explain_undecided([claim("b", "fails")], 1) == ""
    assert explain_undecided([], 0) == ""


NAN = float("nan")
FOUND = Finding("net", "holds", 0.5, 0.25, 1.0, 0.1, "at step 3")
CLAIM = Claim("grows", 4, "godey2024", "It grows.", "It shrinks.", "a run", lambda table, series: Verdict("undecided", ""))


@pytest.mark.parametrize(
    ("findings", "tried_on"), [((), ""), ((FOUND,), "net"), ((FOUND, replace(FOUND, on="other", effect=NAN, threshold=NAN)), "2")]
)
def test_a_verdict_in_words(findings, tried_on):
    verdict = Verdict("holds", "It did.", findings, 0.75, 0.7, 0.8, 0.25)
    row = verdict_row(CLAIM, verdict)
    assert (row.number, row.effect, row.threshold, row.tried_on) == ("4", "0.750 [0.700, 0.800]", "0.250", tried_on)
    shown = [("net", "0.500 [0.250, 1.00]", "0.100"), ("other", "", "")][: len(findings)]
    assert [(finding.on, finding.effect, finding.threshold) for finding in row.findings] == shown
