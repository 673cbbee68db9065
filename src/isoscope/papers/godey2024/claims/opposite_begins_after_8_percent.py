"""Claim 8: opposite dynamics begin after 8 % of the steps."""

from __future__ import annotations

import numpy as np
import pandas as pd

from isoscope.core.claim import Verdict, claim
from isoscope.statistics.deciding import Case
from isoscope.statistics.equal_n import leaving_out, steps_of_different_n, without
from isoscope.statistics.inference import Estimate
from isoscope.statistics.onset import precedence
from isoscope.statistics.suite_evidence import derived, onsets_by_seed
from isoscope.statistics.verdicts import judged

PART = 0.08


@claim(
    number=8,
    paper="godey2024",
    statement="Heads that end in opposite directions begin to align only after 8 % of the steps.",
    refuted_by="a training in which surely more than half of them begin before",
    needs="three trainings with heads that end in opposite directions: `isoscope sweep SUITE --taps hidden,attention --out RUN`",
)
def opposite_begins_after_8_percent(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The part of heads beyond chance in opposite directions whose onset comes later than that, over seeds, beside one half."""
    onsets, levels = onsets_by_seed(table, "qk_cosine"), derived(table, "qk_chance")
    cases, left = {}, {name: said for name, said in steps_of_different_n(table, "qk_cosine", "attention").items() if name in onsets}
    for name, rows in without(onsets, left).items():
        if name not in levels:
            continue
        opposite = rows[rows["end"].lt(-float(levels[name]["value"].iloc[0])) & rows["onset"].notna()]
        begins = opposite.pivot_table(index="seed", columns=["layer", "head"], values="onset").to_numpy(float)
        if begins.size:
            edge = np.nextafter(PART * float(rows["step"].max()), np.inf)  # what begins at that step does not begin after it
            found = precedence(np.full(begins.shape, edge), begins)
            note = f"{len(opposite)} heads of {len(begins)} seed{'' if len(begins) == 1 else 's'}"
            cases[name] = Case(Estimate(found.value, found.low, found.high, note, max(found.units - 1, 1)), (0.5,))
    if not cases and without(onsets, left):
        return Verdict("undecided", "No head of the trainings here ends in opposite directions beyond chance with an onset of its own.")
    return leaving_out(judged(cases, measure="the part of opposite heads that begin after 8 % of the steps", unit="suite"), left)
