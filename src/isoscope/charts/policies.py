"""Token policies in a chart: the reader chooses one, and every chart shows the rows of that one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pandas as pd

from isoscope.charts import lazy_altair as alt
from isoscope.core.site import POLICIES

POLICY_IS_CHOSEN = "datum.policy == policy"
"""Filters the rows of the token policy that the reader chose."""


def list_policies(table: pd.DataFrame) -> list[str]:
    """The token policies of a table, the standard ones first."""
    present = {str(name) for name in table["policy"].dropna().unique()}
    standard = [name for name in POLICIES if name in present]
    return standard + sorted(present - set(standard))


def policy_filter(rows: pd.DataFrame) -> str:
    """A filter for the chosen token policy. Rows derived for a single policy are drawn whichever policy is chosen."""
    return POLICY_IS_CHOSEN if len(rows["policy"].unique()) > 1 else "true"


def title_by_policy(titles: Mapping[str, list[str]]) -> Any:
    """A title that follows the chosen policy."""
    # Titles hold names of models, which anyone can choose: quoted as JSON, nothing in them is read as a Vega expression.
    return alt.TitleParams(text=alt.ExprRef(f"{json.dumps(dict(titles))}[policy] || ''"))
