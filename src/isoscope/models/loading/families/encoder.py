"""Encoders: text models that see both sides."""

from __future__ import annotations

from typing import Any

from isoscope.models.loading.family import RANDOM, Family, Stack
from isoscope.models.loading.readers.text import TextReader
from isoscope.models.loading.readers.tokenizer import load_tokenizer


def _matches(config: Any) -> int:
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

    is_encoder = not getattr(config, "is_encoder_decoder", False) and not getattr(config, "is_decoder", False)
    return int(is_encoder and config.model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES)


encoder = Family(
    name="encoder",
    modality="text",
    about="masked language models and sentence encoders",
    covers={
        "BERT": "all-MiniLM-L6-v2, AntiBERTy",
        "RoBERTa": RANDOM,
        "ALBERT": "RXNMapper",
        "ELECTRA": RANDOM,
        "DistilBERT": RANDOM,
        "MPNet": RANDOM,
        "DeBERTa-v2": RANDOM,
        "ModernBERT": RANDOM,
    },
    matches=_matches,
    stacks=lambda model: {"encoder": Stack(model)},
    processor=load_tokenizer,
    reader=TextReader,
)
