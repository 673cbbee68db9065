"""A claim is a statement of a paper, with a function that decides it from the two tables of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from typing import Literal

import pandas as pd

Outcome = Literal["holds", "fails", "undecided", "error"]
"""A claim that raised has the outcome `error`: a bug in isoscope, about which the tables say nothing."""
NAN = float("nan")


@dataclass(frozen=True)
class Finding:
    """A claim tested on one model, suite or block: an effect with its 95 % interval, and the threshold that was fixed beforehand."""

    on: str
    outcome: Outcome
    effect: float
    low: float
    high: float
    threshold: float
    note: str = ""


@dataclass(frozen=True)
class Verdict:
    """The outcome of a claim on the tables of a run. Without findings nothing in them tests it, and the sentence says what to measure."""

    outcome: Outcome
    sentence: str
    """The evidence in one plain sentence."""
    findings: tuple[Finding, ...] = ()
    effect: float = NAN
    """The effect of the claim as a whole. For a claim about many models it is the share of them for which it holds."""
    low: float = NAN
    high: float = NAN
    threshold: float = NAN


UNTESTED = Verdict("undecided", "")
"""The tables hold nothing to decide by; the claim adds the sentence about what it needs."""

Decide = Callable[[pd.DataFrame, pd.DataFrame], Verdict]


@dataclass(frozen=True)
class Claim:
    """A statement of a paper that a run can support or refute."""

    name: str
    number: int
    """The number of the paper's statement that it is a part of."""
    paper: str
    statement: str
    refuted_by: str
    needs: str
    decide: Decide
    """`decide(table, series)` returns a verdict: undecided, never an error, if rows are missing."""


class Section(list[Claim]):
    """The claims of one numbered statement of a paper, and what they share. A file of a folder `claims/` declares one or several.

    Args:
        paper: the paper's name, as in `isoscope reproduce`.
        number: the number of the statement.
        needs: what must have been measured, and the command that does it. A claim may have its own.
    """

    def __init__(self, paper: str, number: int, needs: str = "") -> None:
        super().__init__()
        self.paper, self.number, self.needs = paper, number, needs

    def add_claim(self, name: str, *, statement: str, refuted_by: str, decide: Decide, needs: str = "") -> Claim:
        """Add the claim of this name: what is claimed, in one sentence, what would refute it, and the function that decides it."""
        measured = needs or self.needs

        @wraps(decide)
        def decide_or_ask(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
            verdict = decide(table, series)
            tested = verdict.findings or verdict.sentence
            return verdict if tested else replace(verdict, sentence=f"Not tested. It needs {measured}.")

        claim = Claim(name, self.number, self.paper, statement, refuted_by, measured, decide_or_ask)
        self.append(claim)
        return claim

    def claim(self, *, statement: str, refuted_by: str, needs: str = "") -> Callable[[Decide], Claim]:
        """Add the function below as the decision function of the claim that has its name."""

        def add(decide: Decide) -> Claim:
            return self.add_claim(decide.__name__, statement=statement, refuted_by=refuted_by, decide=decide, needs=needs)

        return add
