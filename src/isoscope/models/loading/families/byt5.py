"""ByT5: T5 over bytes."""

from __future__ import annotations

from typing import Any

from isoscope.models.loading.family import RANDOM, Family, Stack
from isoscope.models.loading.readers.text import PairReader
from isoscope.models.loading.readers.tokenizer import load_tokenizer


def _matches(config: Any) -> int:
    # Its type is that of T5. Only the tokenizer tells them apart, so it must win over the family of encoder-decoders.
    return 3 * (config.model_type in ("t5", "mt5") and getattr(config, "tokenizer_class", None) == "ByT5Tokenizer")


byt5 = Family(
    name="byt5",
    modality="characters",
    about="T5 over bytes",
    covers={"ByT5": RANDOM},
    matches=_matches,
    stacks=lambda model: {"encoder": Stack(model.get_encoder()), "decoder": Stack(model.get_decoder())},
    processor=load_tokenizer,
    reader=PairReader,
)
