"""Twins that differ in the mask alone, or in the objective alone, and what each of the two makes."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pandas as pd

from isoscope.core.bounded import parsed_object
from isoscope.core.claim import NOTHING, Finding, Verdict
from isoscope.statistics.deciding import outcome
from isoscope.statistics.evidence import interval, shown
from isoscope.statistics.inference import student
from isoscope.statistics.verdicts import at_equal_n

TWIN = r"twin|causal[-_]masked"
"""How the name of a network with a causal mask shows that it was trained on hidden symbols, where `spec` does not say so."""


def role(rows: pd.DataFrame) -> tuple[bool, str]:
    """Whether a trained network sees one side only, and what it predicts: `next` or `masked`."""
    causal = bool(rows["stack"].eq("decoder").all())
    spec = rows["spec"].iloc[0]
    said = parsed_object(spec).get("objective")
    by_name = "masked" if not causal or re.search(TWIN, str(rows["model"].iloc[0]).lower()) else "next"
    return causal, str(said or by_name)


def by_mask(found: Mapping[str, pd.DataFrame], *, measure: str) -> Verdict:
    """Whether what the mask adds is more than what the objective adds, seed by seed, at the last step of three twins.

    Between a decoder and an encoder stands their twin, which has the mask of the one and the objective of the other.
    """
    roles = {role(rows): name for name, rows in found.items() if len(rows) and rows["family"].eq("trained_text").all()}
    wanted = [(True, "next"), (True, "masked"), (False, "masked")]
    if not all(one in roles for one in wanted):
        return NOTHING
    decoder, twin, encoder = (found[roles[one]].groupby("seed")["value"].mean() for one in wanted)
    mask, objective = (twin - encoder).dropna(), (decoder - twin).dropna()
    effect = student((mask - objective).dropna())
    names = " − ".join(roles[one] for one in wanted)
    said = f"Of {measure} the mask alone adds {shown(mask.mean())} and the objective alone {shown(objective.mean())}; the former less the "
    said += f"latter is {interval(effect)} over {len(mask)} seeds."
    one = Finding(names, outcome(effect, 0.0), effect.value, effect.low, effect.high, 0.0, f"{len(mask)} seeds")
    verdict = Verdict(one.outcome, said, (one,), effect.value, effect.low, effect.high, 0.0)
    return at_equal_n(verdict, pd.concat([found[roles[one]] for one in wanted]))
