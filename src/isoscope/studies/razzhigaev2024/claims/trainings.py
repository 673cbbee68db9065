"""Statements 12 and 13: in training, the anisotropy of decoders grows, and intrinsic dimension expands and then compresses."""

from __future__ import annotations

import pandas as pd

from isoscope.claims.claim import Finding, Outcome, Section, Verdict
from isoscope.claims.evidence import mention_left_out, row_estimates, split_comparable, steps_of_different_n
from isoscope.claims.suite_evidence import suite_rows
from isoscope.claims.verdicts import decide_findings, decide_models
from isoscope.core.wording import format_count, format_number
from isoscope.estimation.inference import clopper_pearson
from isoscope.trust.safe_io import parse_object

statement_12 = Section("razzhigaev2024", 12, "trainings of three decoders or more with their dynamics: `isoscope sweep SUITE --out RUN`")


@statement_12.claim(
    statement="The anisotropy of decoders, by their top share, grows in training.",
    refuted_by="a decoder whose top share, the mean over blocks, surely falls from the first step to the last",
)
def decoders_grow_anisotropic(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The top share at the last step less that at the first, the mean over blocks."""
    changes = suite_rows(table, "top_share_change")
    decoders = {name: rows[rows["layer"].isna() & rows["stack"].eq("decoder")] for name, rows in changes.items()}
    decoders = {name: rows for name, rows in decoders.items() if len(rows)}
    decoders, left_out = split_comparable(decoders, steps_of_different_n(table, "top_share", "hidden"))
    effects = {name: row_estimates(rows)[0] for name, rows in decoders.items()}
    verdict = decide_models(effects, measure="the change of the top share, the mean over blocks,", unit="decoder")
    return mention_left_out(verdict, left_out)


statement_13 = Section("razzhigaev2024", 13, "three trainings of five seeds with their dynamics: `isoscope sweep SUITE --out RUN`")


@statement_13.claim(
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
        note = f"in {wins} of {format_count(n, 'seed')}{few}; on average over seeds {gaussian or 'not known'}"
        outcome = outcomes.get(parse_object(row["spec"]).get("verdict"), "undecided")
        findings.append(Finding(name, outcome, share, *clopper_pearson(wins, n), 0.5, note))
    return decide_findings(findings, measure="intrinsic dimension rises and then falls by a tenth of its peak")
