"""Statement 13: intrinsic dimension expands and then compresses in training."""

from __future__ import annotations

import pandas as pd

from isoscope.claims.claim import Finding, Outcome, Section, Verdict
from isoscope.claims.evidence import format_number
from isoscope.claims.suite_evidence import suite_rows
from isoscope.claims.verdicts import decide_findings, pluralise
from isoscope.estimation.inference import clopper_pearson
from isoscope.trust.safe_io import parse_object

section = Section("razzhigaev2024", 13, "three trainings of five seeds with their dynamics: `isoscope sweep SUITE --out RUN`")


@section.claim(
    statement="Intrinsic dimension expands and then compresses in training: it rises by a tenth of its peak and falls by as much.",
    refuted_by="a training in which rise or fall is surely less than a tenth of the peak in five of five seeds",
)
def dimension_rises_then_falls(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The share of seeds in which both lower bounds exceed a tenth of the peak, the mean over blocks: sign test over seeds."""
    phases = {phase: suite_rows(table, f"dimension_{phase}") for phase in ("rise", "fall")}
    outcomes: dict[object, Outcome] = {"holds": "holds", "fails": "fails"}
    findings = []
    for name, rows in suite_rows(table, "rise_then_fall").items():
        over_blocks = rows[rows["layer"].isna()]
        if over_blocks.empty:
            continue
        row = over_blocks.iloc[0]
        n, share = int(row["n"]), float(row["value"])
        wins = round(share * n)
        means = {phase: by_suite[name][by_suite[name]["layer"].isna()] for phase, by_suite in phases.items() if name in by_suite}
        gaussian = ", ".join(
            f"{phase} {format_number(own['value'].mean())} (Gaussian {format_number(own['null'].mean())})" for phase, own in means.items()
        )
        few = "" if n >= 5 else ", at least five are needed"
        note = f"in {wins} of {pluralise(n, 'seed')}{few}; on average over seeds {gaussian or 'not known'}"
        outcome = outcomes.get(parse_object(row["spec"]).get("verdict"), "undecided")
        findings.append(Finding(name, outcome, share, *clopper_pearson(wins, n), 0.5, note))
    return decide_findings(findings, measure="intrinsic dimension rises and then falls by a tenth of its peak")
