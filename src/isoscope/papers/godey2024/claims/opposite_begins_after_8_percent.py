"""Claim 8: opposite dynamics begin after 8 % of the steps."""

from __future__ import annotations

import pandas as pd

from isoscope.core.claim import Verdict, claim
from isoscope.statistics.deciding import Case
from isoscope.statistics.equal_n import leaving_out, steps_of_different_n, without
from isoscope.statistics.onset import Estimate, clopper_pearson
from isoscope.statistics.suite_evidence import at_end, derived
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
    """The part of heads beyond chance in opposite directions whose onset comes later than that, beside one half."""
    onsets, levels = derived(table, "onset_alignment"), derived(table, "qk_chance")
    cases, left = {}, {name: said for name, said in steps_of_different_n(table, "qk_cosine", "attention").items() if name in onsets}
    for name, rows in without(at_end(table, "qk_cosine"), left).items():
        if name not in onsets or name not in levels:
            continue
        ends = rows.groupby(["layer", "head"])["value"].mean()
        opposite = ends[ends < -float(levels[name]["value"].iloc[0])].index
        begins = onsets[name].set_index(["layer", "head"])["value"]
        begins = begins[begins.index.isin(opposite)]
        if len(begins):
            wins, n = int((begins > PART * float(rows["step"].max())).sum()), len(begins)
            cases[name] = Case(Estimate(wins / n, *clopper_pearson(wins, n), f"{n} heads"), (0.5,))
    if not cases and without(onsets, left):
        return Verdict("undecided", "No head of the trainings here ends in opposite directions beyond chance with an onset of its own.")
    return leaving_out(judged(cases, measure="the part of opposite heads that begin after 8 % of the steps", unit="suite"), left)
