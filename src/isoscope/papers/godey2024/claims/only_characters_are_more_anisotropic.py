"""Claim 1: models with only characters or bytes in and out are even more anisotropic."""

from __future__ import annotations

import pandas as pd

from isoscope.core.claim import Verdict, claim
from isoscope.statistics.evidence import cosines, is_named
from isoscope.statistics.inference import welch
from isoscope.statistics.verdicts import at_equal_n, compared

PURE, MIXED = ("ByT5", "CANINE-c", "MANTa"), ("CharacterBERT", "CANINE-s")


@claim(
    number=1,
    paper="godey2024",
    statement="Models of characters or bytes alone (ByT5, CANINE-c, MANTa) are more anisotropic than CharacterBERT and CANINE-s.",
    refuted_by="CharacterBERT and CANINE-s lying surely above them, by the mean cosine over layers",
    needs="several sizes of ByT5, CANINE-c or MANTa, and of CharacterBERT or CANINE-s: four of each to decide it by permutation",
)
def only_characters_are_more_anisotropic(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The mean cosine over layers, one group of models less the other."""
    found = cosines(table, series, ["character"])
    means = {name: float(rows["value"].mean()) for name, rows in found.items()}
    ones, others = ({name: x for name, x in means.items() if any(is_named(name, one) for one in group)} for group in (PURE, MIXED))
    effect = welch(list(ones.values()), list(others.values()))
    names = ("models of characters or bytes alone", "others")
    verdict = compared(ones, others, effect, measure="the mean cosine over layers", names=names)
    return at_equal_n(verdict, pd.concat([found[name] for name in (*ones, *others)])) if verdict.findings else verdict
