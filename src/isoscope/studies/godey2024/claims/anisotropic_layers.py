"""Statement 1: every Transformer has an anisotropic layer, character-level models too."""

from __future__ import annotations

import pandas as pd

from isoscope.claims.claim import Section, Verdict
from isoscope.claims.evidence import is_named, layer_cosines
from isoscope.claims.verdicts import compare_groups
from isoscope.studies.godey2024.claims._layer_cosine import decide_by_cosine

CHARACTERS_ALONE, OTHERS = ("ByT5", "CANINE-c", "MANTa"), ("CharacterBERT", "CANINE-s")

section = Section("godey2024", 1)

section.add_claim(
    "every_transformer_has_an_anisotropic_layer",
    statement="Every Transformer has an anisotropic layer, whatever it reads.",
    refuted_by="a trained Transformer whose cosine lies surely below the threshold in every layer",
    needs="the hidden states of three trained Transformers or more: `isoscope measure MODEL MODEL MODEL --out RUN`",
    decide=decide_by_cosine(),
)
section.add_claim(
    "character_models_have_an_anisotropic_layer",
    statement="Character-level models have an anisotropic layer too, so that rare tokens are not the cause.",
    refuted_by="a character-level model whose cosine lies surely below the threshold in every layer",
    needs="the hidden states of three character-level models or more: `isoscope measure CANINE BYT5 MANTA --out RUN`",
    decide=decide_by_cosine(groups=["character"], unit="character-level model"),
)
section.add_claim(
    "t5_decoders_are_extreme",
    statement="The decoders of ByT5 and T5 are extremely anisotropic: their cosine exceeds 0.8 somewhere.",
    refuted_by="a decoder of either whose cosine lies surely below 0.8 in every layer",
    needs="a ByT5 and a T5 with their decoders: `isoscope measure google/byt5-base google-t5/t5-base --out RUN`",
    decide=decide_by_cosine(names=("ByT5", "T5"), stack="decoder", threshold=0.8, measure="the greatest cosine over the decoder's layers"),
)


@section.claim(
    statement="Models of characters or bytes alone (ByT5, CANINE-c, MANTa) are more anisotropic than CharacterBERT and CANINE-s.",
    refuted_by="CharacterBERT and CANINE-s lying surely above them, by the mean cosine over layers",
    needs="several sizes of ByT5, CANINE-c or MANTa, and of CharacterBERT or CANINE-s: four of each to decide it by permutation",
)
def only_characters_are_more_anisotropic(table: pd.DataFrame, series: pd.DataFrame) -> Verdict:
    """The mean cosine over layers, one group of models less the other."""
    layers = layer_cosines(table, series, ["character"])
    alone, others = ({name: rows for name, rows in layers.items() if is_named(name, *group)} for group in (CHARACTERS_ALONE, OTHERS))
    return compare_groups(alone, others, measure="the mean cosine over layers", names=("models of characters or bytes alone", "others"))
