"""Claims and papers, and how a claim is decided. The papers themselves are studies: `isoscope/studies/`."""

from __future__ import annotations

from functools import partial

import pandas as pd

from isoscope.claims.claim import Claim, Verdict
from isoscope.claims.paper import Paper
from isoscope.core.errors import Failures, IsoscopeError, nearest
from isoscope.core.registry import Registry

papers: Registry[Paper] = Registry(Paper, "paper", "isoscope.studies.*.paper")
"""The papers by name; a plugin may bring more, as `studies/NAME/paper.py`."""
all_claims: Registry[Claim] = Registry(Claim, "claim", "isoscope.studies.*.claims")
"""The claims by name, from the files of the folders `claims/`, those of plugins included."""


def claims(paper: str | None = None) -> list[Claim]:
    """Every claim, or those of one paper, by number."""
    known = sorted({claim.paper for claim in all_claims})
    if paper is not None and paper not in known:
        raise IsoscopeError(f"No claim is of {paper!r}{nearest(paper, known) or '; there are claims of ' + ', '.join(known) + '.'}")
    return sorted((claim for claim in all_claims if paper in (None, claim.paper)), key=lambda claim: (claim.number, claim.name))


def decide_claims(
    table: pd.DataFrame, series: pd.DataFrame, paper: str | None = None, failures: Failures | None = None
) -> list[tuple[Claim, Verdict]]:
    """Every claim, or those of one paper, with its verdict on these tables.

    A claim that raises has the outcome `error`, and the others are decided all the same. What it raised is noted in `failures`; without
    them it is raised after all claims are decided.
    """
    noted = Failures() if failures is None else failures
    decided = []
    for claim in claims(paper):
        part = f"the verdict on {claim.name}"
        verdict = noted.attempt(part, partial(claim.decide, table, series))
        error = Verdict("error", f"This claim could not be decided, because isoscope failed: {noted.describe(part)}")
        decided.append((claim, verdict or error))
    if failures is None:
        noted.raise_all("the verdicts")
    return decided
