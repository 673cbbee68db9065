"""Claim 13: intrinsic dimension expands and then compresses in training."""

from __future__ import annotations

import pandas as pd

from isoscope.core.bounded import parsed_object
from isoscope.core.claim import Finding, Outcome, Verdict, claim
from isoscope.statistics.evidence import shown
from isoscope.statistics.inference import clopper_pearson
from isoscope.statistics.suite_evidence import derived
from isoscope.statistics.verdicts import over


@claim(
    number=13,
    paper="razzhigaev2024",
    statement="Intrinsic dimension expands and then compresses in training: it rises by a tenth of its peak and falls by as much.",
    refuted_by="a training in which rise or fall is surely less than a tenth of the peak in five of five seeds",
    needs="three trainings of five seeds with their dynamics: `isoscope sweep SUITE --out RUN`",
)
def dimension_rises_then_falls(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The part of seeds in which both lower bounds exceed a tenth of the peak, the mean over blocks: sign test over seeds."""
    beside = {name: derived(table, f"dimension_{name}") for name in ("rise", "fall")}
    findings = []
    for name, rows in derived(table, "rise_then_fall").items():
        whole = rows[rows["layer"].isna()]
        if whole.empty:
            continue
        row = whole.iloc[0]
        n, part = int(row["n"]), float(row["value"])
        said = parsed_object(row["spec"]).get("verdict")
        word: Outcome = "holds" if said == "holds" else "fails" if said == "fails" else "undecided"
        ends = {kind: found[name][found[name]["layer"].isna()] for kind, found in beside.items() if name in found}
        gaussian = ", ".join(f"{kind} {shown(own['value'].mean())} (Gaussian {shown(own['null'].mean())})" for kind, own in ends.items())
        low, high = clopper_pearson(round(part * n), n)
        text = f"in {round(part * n)} of {n} seeds, five at least are needed; on average over seeds {gaussian or 'not known'}"
        findings.append(Finding(name, word, part, low, high, 0.5, text))
    return over(findings, measure="intrinsic dimension rises and then falls by a tenth of its peak")
