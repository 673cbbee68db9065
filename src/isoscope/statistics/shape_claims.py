"""The profiles of encoders and decoders of language, under every token policy, for claims about their shape."""

from __future__ import annotations

from collections.abc import Collection

import pandas as pd

from isoscope.statistics.equal_n import LeftOut, layers_of_different_n
from isoscope.statistics.evidence import by_model, of_models
from isoscope.statistics.onset import Estimate

HEIGHT = 0.05
"""Bell-shaped: the lower bound of B is above this."""
FLAT = 0.1
"""Flat: the upper bound of the range over the blocks is below this."""
GROUPS = ("token", "character")
POLICIES = ("all", "no-special", "body", "body-no-sink")
"""The token policies that a shape must be the same under."""


def profiles(table: pd.DataFrame, metrics: Collection[str], stack: str) -> dict[str, tuple[pd.DataFrame, list[Estimate]]]:
    """The profiles of models that are a decoder, or an encoder, and not both: their rows, and these as effects."""
    rows = of_models(table, metrics, GROUPS, policy=None)
    rows = rows[rows["policy"].isin(list(POLICIES)) & rows["layer"].isna()]
    found, left = {}, blocks_of_different_n(table, stack)
    for name, own in by_model(rows).items():
        if list(own["stack"].unique()) == [stack] and name not in left:
            names = own["metric"] + ", " + own["policy"]
            found[name] = own, [Estimate(*one) for one in zip(own["value"], own["low"], own["high"], names, strict=True)]
    return found


def blocks_of_different_n(table: pd.DataFrame, stack: str) -> LeftOut:
    """The decoders, or encoders, whose blocks have different n with all tokens: a shape over them would be partly that of n.

    Without sinks the blocks of any model may have a few tokens more or less, and that is not counted.
    """
    rows = of_models(table, ["top_share"], GROUPS)
    return layers_of_different_n(by_model(rows[rows["stack"].eq(stack) & rows["layer"].gt(0)]))


def also_without_sinks(effect: Estimate, rows: pd.DataFrame, threshold: float) -> Estimate:
    """The effect as it is where sinks were set apart, or where it lies below the threshold already; else without an interval.

    What holds with sink tokens may not hold without them, and a run that did not set them apart cannot tell.
    """
    if rows["policy"].eq("body-no-sink").any() or effect.high < threshold:
        return effect
    return Estimate(effect.value, note="not known without sinks: measure with --split-body sink")
