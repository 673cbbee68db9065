"""Encoder–decoders: the encoder reads an item, the decoder reads the same item, shifted right by its start token."""

from __future__ import annotations

from typing import Any

from isoscope.models.loading.family import RANDOM, Family, Stack
from isoscope.models.loading.readers.text import PairReader
from isoscope.models.loading.readers.tokenizer import load_tokenizer


def _matches(config: Any) -> int:
    from transformers.models.auto.modeling_auto import MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES

    return int(config.model_type in MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES)


def _stacks(model: Any) -> dict[str, Stack]:
    encoder = {"encoder": Stack(model.get_encoder())}
    return encoder | ({"decoder": Stack(model.decoder)} if hasattr(model, "decoder") else {})


encoder_decoder = Family(
    name="encoder_decoder",
    modality="text",
    about="sequence-to-sequence models, and their encoders alone",
    covers={"T5": RANDOM, "Flan-T5": RANDOM, "T5 encoder": "a distilled Flan-T5-small's", "BART": RANDOM},
    matches=_matches,
    stacks=_stacks,
    processor=load_tokenizer,
    reader=PairReader,
)
