"""The papers' claims and figures on the page: each where it belongs, in words."""

from __future__ import annotations

from isoscope.claims import papers
from isoscope.core.figure import Figure
from isoscope.figures import figures
from isoscope.report.charts import OTHERS, TOPICS, Drawing, group_by_topic, place_on_page
from isoscope.report.paper_verdicts import FindingRow, VerdictRow, describe_outcomes, explain_undecided, figure_citations, paper_sections


def claim(name: str, outcome: str, *, tested: bool = True, paper: str = "godey2024") -> VerdictRow:
    findings = (FindingRow("m", outcome, "0.5", "0.1", ""),) if tested else ()
    return VerdictRow("1", name, paper, f"{name} is so.", outcome, "0.5", "0.1", "m", "It is.", "The opposite.", findings)


def drawn(name: str, panels: int = 1) -> Drawing:
    own = figures[name] if name in figures else Figure(name, name, "A caption.", lambda table, series: None)
    return Drawing(own, [{"title": f"p{i}"} for i in range(panels)])


def test_figures_are_numbered_through_and_stand_under_their_heading():
    found = place_on_page([drawn("token_models", 2), drawn("spectrum"), drawn("my_figure", 3)], first=5, prefix="x-")
    assert [(one.id, one.numbers) for one in found] == [("x-token_models", [5, 6]), ("x-spectrum", [7]), ("x-my_figure", [8, 9, 10])]
    assert [(topic, [chart.figure.name for chart in own]) for topic, own in group_by_topic(found)] == [
        ("Cosine over the layers", ["token_models"]),
        ("Spectra, norms and tokens", ["spectrum"]),
        (OTHERS, ["my_figure"]),
    ]
    topics = {figure.topic for figure in figures if not figure.over_steps}
    assert topics == set(TOPICS), "every figure of the package stands under a heading, and every heading has a figure"


def test_one_of_many_panels_can_be_chosen_by_its_title():
    few, many = place_on_page([drawn("few", 9), drawn("many", 10)])
    assert (few.choices, many.choices) == ([], [f"p{i}" for i in range(10)])


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
    (paper,) = paper_sections(place_on_page([drawn("token_models")]), [])
    assert paper.figures == [("1", papers["godey2024"].figure("1").shows, "token_models")]


def test_the_page_says_why_two_models_decide_nothing():
    two = {"m": [("holds", "1 holds")], "n": [("fails", "1 fails")]}
    assert "so each takes at least 3" in explain_undecided([claim("a", "undecided")], two)
    assert explain_undecided([claim("a", "undecided"), claim("b", "fails")], two) == ""  # something was decided all the same
    assert explain_undecided([claim("a", "undecided")], two | {"o": []}) == ""
    assert explain_undecided([], {}) == ""
