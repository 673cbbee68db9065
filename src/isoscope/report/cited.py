"""The papers on the page: their claims with verdicts, and where their figures stand."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from isoscope.core.paper import Paper
from isoscope.papers import papers
from isoscope.report.chance import listed
from isoscope.report.claims import VerdictRow
from isoscope.report.contents import Placed
from isoscope.statistics.deciding import FEWEST_MODELS

OUTCOMES = {"holds": ("holds", "hold"), "fails": ("fails", "fail"), "undecided": ("is undecided", "are undecided")}
OUTCOMES |= {"error": ("ends in an error", "end in an error")}


@dataclass(frozen=True)
class OnPage:
    """A paper: its claims that these tables speak to, those that they do not, and its figures by number, what it shows and where."""

    name: str
    title: str
    authors: str
    counts: str
    tally: list[tuple[str, str]]
    decided: list[VerdictRow]
    silent: list[VerdictRow]
    figures: list[tuple[str, str, str]]


def cited() -> dict[str, str]:
    """By the name of a figure: which figures of papers it shows, in words."""
    found: dict[str, list[str]] = {}
    for paper in papers:
        numbers: dict[str, list[str]] = {}
        for figure in paper.figures:
            for name in figure.draws:
                numbers.setdefault(name, []).append(figure.number)
        for name, known in numbers.items():
            found.setdefault(name, []).append(in_words(known, paper))
    return {name: "; ".join(words) for name, words in found.items()}


def in_words(numbers: list[str], paper: Paper) -> str:
    """Figures by number and paper; those without a number are called what they show."""
    numbered = [number for number in numbers if number[0].isdigit()]
    plural = "s" if len(numbered) > 1 else ""
    return f"Figure{plural} {', '.join(numbered)} of {paper.authors}" if numbered else f"Shown in {paper.authors}"


def papers_on_page(charts: Iterable[Placed], verdicts: list[VerdictRow]) -> list[OnPage]:
    """Every paper that the tables speak to, or of which the page has a figure."""
    places = {chart.name: chart.id for chart in reversed(list(charts))}
    found = []
    for paper in papers:
        own = [row for row in verdicts if row.paper == paper.name]
        decided = [row for row in own if row.findings or row.outcome == "error"]
        silent = [row for row in own if row not in decided]
        drawn = [(one, [places[name] for name in one.draws if name in places]) for one in paper.figures]
        figures = [(one.number, one.shows, ids[0]) for one, ids in drawn if ids]
        if decided or figures:
            found.append(
                OnPage(
                    paper.name,
                    paper.title,
                    paper.authors,
                    counts(decided),
                    tally(row.outcome for row in decided),
                    in_order(decided),
                    silent,
                    figures,
                )
            )
    return found


def in_order(rows: list[VerdictRow]) -> list[VerdictRow]:
    """Errors of ours first, then what holds before what fails before what is undecided, each by number."""
    order = ["error", *(word for word in OUTCOMES if word != "error")]
    return sorted(rows, key=lambda row: order.index(row.outcome))


def tally(outcomes: Iterable[str]) -> list[tuple[str, str]]:
    """How often each outcome comes, as few words; those that do not come are not there.

    >>> tally(["fails", "holds", "undecided", "holds"])
    [('holds', '2 hold'), ('fails', '1 fails'), ('undecided', '1 undecided')]
    """
    found = list(outcomes)
    short = {outcome: [words.split()[-1] for words in both] for outcome, both in OUTCOMES.items()}
    numbers = {outcome: found.count(outcome) for outcome in OUTCOMES}
    return [(outcome, f"{number} {short[outcome][number != 1]}") for outcome, number in numbers.items() if number]


def too_few(judged: list[VerdictRow], tallies: dict[str, list[tuple[str, str]]]) -> str:
    """Why nothing could be decided, where that is for want of models; the verdicts on each of them stand beside it."""
    if len(tallies) >= FEWEST_MODELS or not tallies or any(row.outcome != "undecided" for row in judged):
        return ""
    return (
        f"The papers speak of kinds of models: a claim takes {FEWEST_MODELS} at least. What holds of each model here is in the last column."
    )


def tally_of(model: str, verdicts: list[VerdictRow]) -> list[tuple[str, str]]:
    """What the claims say of one model; its stacks count with it."""
    return tally(one.outcome for row in verdicts for one in row.findings if one.on == model or one.on.startswith(f"{model} ("))


def counts(rows: list[VerdictRow]) -> str:
    """How many claims hold, fail and are undecided, in words; nothing where there is none."""
    numbers = [(sum(row.outcome == outcome for row in rows), words) for outcome, words in OUTCOMES.items()]
    parts = [f"{number} {one if number == 1 else many}" for number, (one, many) in numbers if number]
    return f"Of {len(rows)} claims that this run speaks to, {listed(parts)}." if rows else ""
