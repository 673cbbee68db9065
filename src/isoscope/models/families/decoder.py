"""Decoders: text models that see only what came before."""

from __future__ import annotations

from typing import Any

from isoscope.models.family import Family


def _matches(config: Any) -> bool:
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, MODEL_FOR_MASKED_LM_MAPPING_NAMES

    if getattr(config, "is_encoder_decoder", False):
        return False
    causal = config.model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    masked = config.model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES
    return causal and (not masked or bool(getattr(config, "is_decoder", False)))


decoder = Family(
    name="decoder",
    modality="text",
    about="causal language models: GPT-2, OPT, Llama, Pythia, Falcon, Qwen, …",
    matches=_matches,
    stacks=lambda model: {"decoder": model},
    feed=lambda model, ids, mask: {"input_ids": ids, "attention_mask": mask, "use_cache": False},
    start=lambda config: None,
)
