"""The profiles of encoders and decoders of language under every token policy: the evidence on the shape of anisotropy."""

from __future__ import annotations

from collections.abc import Collection

import pandas as pd

from isoscope.claims.equal_n import LeftOut, layers_of_different_n
from isoscope.claims.evidence import RowsByName, model_rows, rows_by_model

BELL_HEIGHT = 0.05
"""A stack is bell-shaped if the lower bound of B is above this."""
FLAT_RANGE = 0.1
"""A stack is flat if the upper bound of the range over its blocks is below this."""
LANGUAGE = ("token", "character")
POLICIES = ("all", "no-special", "body", "body-no-sink")
"""A shape must be the same under each of these token policies."""


def stack_profiles(table: pd.DataFrame, metrics: Collection[str], stack: str) -> RowsByName:
    """The profiles of models that have this stack alone, `decoder` or `encoder`, with a `note` that names metric and policy."""
    rows = model_rows(table, metrics, LANGUAGE, policy=None)
    rows = rows[rows["policy"].isin(list(POLICIES)) & rows["layer"].isna()]
    rows = rows.assign(note=rows["metric"] + ", " + rows["policy"])
    left_out = blocks_of_different_n(table, stack)
    return {name: own for name, own in rows_by_model(rows).items() if list(own["stack"].unique()) == [stack] and name not in left_out}


def blocks_of_different_n(table: pd.DataFrame, stack: str) -> LeftOut:
    """The decoders, or encoders, whose blocks have different n with all tokens: part of their shape would be that of n.

    Without sinks, the blocks of any model may differ by a few tokens. That is not counted.
    """
    rows = model_rows(table, ["top_share"], LANGUAGE)
    return layers_of_different_n(rows_by_model(rows[rows["stack"].eq(stack) & rows["layer"].gt(0)]))
