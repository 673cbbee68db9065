"""Claim 11: decoders are bell-shaped before and after the final norm."""

from __future__ import annotations

import pandas as pd

from isoscope.core.claim import Verdict, claim
from isoscope.statistics.deciding import Case
from isoscope.statistics.equal_n import layers_of_different_n, leaving_out
from isoscope.statistics.evidence import by_stack, of_models
from isoscope.statistics.inference import least_of
from isoscope.statistics.profile import BLOCKS, bulge
from isoscope.statistics.shape_claims import GROUPS, HEIGHT, blocks_of_different_n, profiles
from isoscope.statistics.verdicts import judged


@claim(
    number=11,
    paper="razzhigaev2024",
    statement="Decoders are bell-shaped whether their last layer is taken before the final norm or after it.",
    refuted_by="a decoder whose B lies surely below 0.05 with the last layer before the final norm, or after it",
    needs="three decoders of six blocks or more with a final norm: `isoscope measure GPT2 OPT SMOLLM --out RUN`",
)
def bell_survives_the_final_norm(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """B under all tokens as it is, and with the state after the final norm as the last block, with the interval of the former."""
    before = profiles(table, ("bell",), "decoder")
    hidden, final = (by_stack(of_models(table, ["top_share"], GROUPS, kind=kind)) for kind in ("hidden", "final"))
    ends = {
        name: pd.concat([hidden[name][hidden[name]["layer"].gt(0)], final[name]]) for name in before if name in hidden and name in final
    }
    cases, left = {}, layers_of_different_n(ends)
    for name, (rows, parts) in before.items():
        if name not in ends or name in left:
            continue
        blocks = hidden[name][hidden[name]["layer"].gt(0)].sort_values("layer")["value"].to_numpy(float)
        plain = parts[rows["policy"].tolist().index("all")] if "all" in rows["policy"].tolist() else None
        if plain is None or len(blocks) < BLOCKS:
            continue
        after = blocks.copy()
        after[-1] = float(final[name]["value"].iloc[0])
        moved = plain.linear(1, float(bulge(after) - bulge(blocks)))
        cases[name] = Case(least_of([plain, moved]), (HEIGHT,))
    verdict = judged(cases, measure="B before or after the final norm, whichever is less,", unit="decoder")
    return leaving_out(verdict, left | blocks_of_different_n(table, "decoder"))
