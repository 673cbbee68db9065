"""What a claim is: a statement of a paper as a function from the two tables to a verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from typing import Literal

import pandas as pd

Outcome = Literal["holds", "fails", "undecided", "error"]
"""`error` is of a claim that raised: a bug of ours, about which the tables say nothing."""
NAN = float("nan")


@dataclass(frozen=True)
class Finding:
    """A claim on one model, suite or block: an effect with its 95 % interval, beside the threshold that was fixed beforehand."""

    on: str
    outcome: Outcome
    effect: float
    low: float
    high: float
    threshold: float
    said: str = ""


@dataclass(frozen=True)
class Verdict:
    """What the tables say about a claim; without findings nothing in them speaks to it, and `said` says what to measure."""

    outcome: Outcome
    said: str
    """One plain sentence with the evidence."""
    findings: tuple[Finding, ...] = ()
    effect: float = NAN
    """That of the claim as a whole: of a sentence about many models the part of them that it holds of."""
    low: float = NAN
    high: float = NAN
    threshold: float = NAN


NOTHING = Verdict("undecided", "")
"""The tables hold nothing to decide by; the claim itself says what it needs."""

Decide = Callable[[pd.DataFrame, pd.DataFrame], Verdict]


@dataclass(frozen=True)
class Claim:
    """A statement of a paper that a run can support or refute."""

    name: str
    number: int
    paper: str
    statement: str
    refuted_by: str
    needs: str
    decide: Decide
    """`decide(table, series)`: a verdict; undecided, never an error, where rows are missing."""


def claim(*, number: int, paper: str, statement: str, refuted_by: str, needs: str) -> Callable[[Decide], Claim]:
    """Declare the function below as the claim of its own name.

    Args:
        number: which statement of the paper it is a part of.
        paper: the paper's name, as in `isoscope reproduce`.
        statement: what is claimed, in one sentence.
        refuted_by: what would refute it.
        needs: what must have been measured, and the command that does it; the verdict says it where there is nothing to decide by.
    """

    def declare(decide: Decide) -> Claim:
        @wraps(decide)
        def answered(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
            found = decide(table, series)
            return found if found.findings or found.said else replace(found, said=f"Nothing here speaks to it; it needs {needs}.")

        return Claim(decide.__name__, number, paper, statement, refuted_by, needs, answered)

    return declare
