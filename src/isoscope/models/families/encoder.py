"""Encoders: text models that see both sides."""

from __future__ import annotations

from typing import Any

from isoscope.models.family import Family


def _matches(config: Any) -> bool:
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

    alone = not getattr(config, "is_encoder_decoder", False) and not getattr(config, "is_decoder", False)
    return alone and config.model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES


encoder = Family(
    name="encoder",
    modality="text",
    about="masked language models and sentence encoders: BERT, RoBERTa, ALBERT, ELECTRA, MPNet, …",
    matches=_matches,
    stacks=lambda model: {"encoder": model},
    feed=lambda model, ids, mask: {"input_ids": ids, "attention_mask": mask},
    start=lambda config: None,
)
