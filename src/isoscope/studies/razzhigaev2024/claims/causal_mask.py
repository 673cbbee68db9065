"""Statement 15: the difference between decoders and encoders comes from the causal mask.

Between a decoder and an encoder stands their twin, which has the mask of the one and the objective of the other. So the mask alone
separates twin and encoder, and the objective alone separates decoder and twin.
"""

from __future__ import annotations

import re

import pandas as pd

from isoscope.claims.claim import UNTESTED, Decide, Finding, Section, Verdict
from isoscope.claims.deciding import single_outcome
from isoscope.claims.evidence import describe_estimate, require_equal_n
from isoscope.claims.suite_evidence import final_rows
from isoscope.core.wording import format_count, format_number
from isoscope.estimation.inference import student
from isoscope.trust.safe_io import parse_object

TWIN_NAME = r"twin|causal[-_]masked"
"""The pattern in the name of a causal network that was trained on hidden symbols, for rows whose `spec` lacks the objective."""
DECODER, TWIN, ENCODER = (True, "next"), (True, "masked"), (False, "masked")

statement_15 = Section(
    "razzhigaev2024",
    15,
    "three twins of two seeds or more: `isoscope train causal-text`, `masked-text` and `causal-masked-text`, then `isoscope sweep`",
)


def training_role(rows: pd.DataFrame) -> tuple[bool, str]:
    """Whether a trained network has a causal mask, and what it predicts: `next` or `masked`."""
    causal = bool(rows["stack"].eq("decoder").all())
    by_name = "masked" if not causal or re.search(TWIN_NAME, str(rows["model"].iloc[0]).lower()) else "next"
    return causal, str(parse_object(rows["spec"].iloc[0]).get("objective") or by_name)


def decide_by_twins(metric: str, *, measure: str, blocks: bool = False) -> Decide:
    """A function that decides whether the mask adds more to a number than the objective does: at the last step, seed by seed.

    `blocks` takes the mean over the blocks of a stack, without what enters the first.
    """

    def decide(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
        rows = {name: own[own["layer"].gt(0)] if blocks else own for name, own in final_rows(table, metric, kind="hidden").items()}
        roles = {training_role(own): name for name, own in rows.items() if len(own) and own["family"].eq("trained_text").all()}
        if not {DECODER, TWIN, ENCODER} <= roles.keys():
            return UNTESTED
        names = [roles[role] for role in (DECODER, TWIN, ENCODER)]
        decoder, twin, encoder = (rows[name].groupby("seed")["value"].mean() for name in names)
        # Pandas subtracts by seed: the data order of a seed is the same in all three, so what it adds cancels.
        mask, objective = (twin - encoder).dropna(), (decoder - twin).dropna()
        effect = student((mask - objective).dropna())
        outcome = single_outcome(effect, 0.0)
        seeds = format_count(len(mask), "seed")
        sentence = f"The mask alone adds {format_number(mask.mean())} to {measure}, the objective alone {format_number(objective.mean())}; "
        sentence += f"the difference is {describe_estimate(effect)} over {seeds}."
        finding = Finding(" − ".join(names), outcome, effect.value, effect.low, effect.high, 0.0, seeds)
        verdict = Verdict(outcome, sentence, (finding,), effect.value, effect.low, effect.high, 0.0)
        return require_equal_n(verdict, pd.concat([rows[name] for name in names]))

    return decide


statement_15.add_claim(
    "mask_makes_the_bell",
    statement="The causal mask, not the objective, makes decoders more bell-shaped than encoders.",
    refuted_by="twins in which the objective alone moves B surely more than the mask alone",
    decide=decide_by_twins("bell", measure="B"),
)
statement_15.add_claim(
    "mask_makes_the_share",
    statement="The causal mask, not the objective, makes the top share of decoders higher than that of encoders.",
    refuted_by="twins in which the objective alone moves the top share surely more than the mask alone",
    decide=decide_by_twins("top_share", measure="the top share, the mean over blocks", blocks=True),
)
