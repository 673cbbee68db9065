"""The papers as isoscope carries them out, one folder each: experiments, figures, claims, published values."""

from __future__ import annotations

from functools import partial

import pandas as pd

from isoscope.core.claim import Claim, Verdict
from isoscope.core.errors import IsoscopeError, nearest
from isoscope.core.failures import Failures
from isoscope.core.paper import Paper
from isoscope.core.registry import Registry

papers: Registry[Paper] = Registry(Paper, "paper", __name__)
"""By name; a folder `papers/` of a plugin may hold more."""


all_claims: Registry[Claim] = Registry(Claim, "claim", f"{__name__}.*.claims")


def claims(paper: str | None = None) -> list[Claim]:
    """Every claim, or those of one paper, by number: what the files in the folders `claims/` declare, those of plugins among them."""
    known = sorted({one.paper for one in all_claims})
    if paper is not None and paper not in known:
        raise IsoscopeError(f"No claim is of {paper!r}{nearest(paper, known) or '; there are claims of ' + ', '.join(known) + '.'}")
    return sorted((one for one in all_claims if paper in (None, one.paper)), key=lambda one: (one.number, one.name))


def judged(
    table: pd.DataFrame, series: pd.DataFrame, paper: str | None = None, failures: Failures | None = None
) -> list[tuple[Claim, Verdict]]:
    """Every claim with what these tables say about it.

    A claim that raises has the outcome `error`, the others are decided all the same, and what was raised is noted in `failures`; without
    them it is raised when all are decided.
    """
    noted = Failures() if failures is None else failures
    found = []
    for one in claims(paper):
        part = f"the verdict on {one.name}"
        verdict = noted.attempt(part, partial(one.decide, table, series))
        found.append((one, verdict or Verdict("error", f"This claim could not be decided, because isoscope failed: {noted.said(part)}")))
    if failures is None:
        noted.raise_all("the verdicts")
    return found
