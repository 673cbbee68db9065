"""The papers as isoscope carries them out, one folder each: experiments, figures, claims, published values."""

from __future__ import annotations

import importlib
import sys
from importlib.util import find_spec

import pandas as pd

from isoscope.core.claim import Claim, Verdict
from isoscope.core.errors import IsoscopeError, nearest
from isoscope.core.paper import Paper
from isoscope.core.registry import Registry

papers: Registry[Paper] = Registry(sys.modules[__name__], "paper", Paper)
"""By name; a folder `papers/` of a plugin may hold more."""


def claims(paper: str | None = None) -> list[Claim]:
    """Every claim, or those of one paper, by number: what the files in the folders `claims/` declare, those of plugins among them."""
    found: dict[str, Claim] = {}
    for name in papers.names():
        package = f"{__name__}.{name}.claims"
        if find_spec(package) is not None:
            found |= {one.name: one for one in Registry(importlib.import_module(package), "claim", Claim)}
    known = sorted({one.paper for one in found.values()})
    if paper is not None and paper not in known:
        raise IsoscopeError(f"No claim is of {paper!r}{nearest(paper, known) or '; there are claims of ' + ', '.join(known) + '.'}")
    return sorted((one for one in found.values() if paper in (None, one.paper)), key=lambda one: (one.number, one.name))


def judged(table: pd.DataFrame, series: pd.DataFrame, paper: str | None = None) -> list[tuple[Claim, Verdict]]:
    """Every claim with what these tables say about it."""
    return [(one, one.decide(table, series)) for one in claims(paper)]
