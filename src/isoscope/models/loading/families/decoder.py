"""Decoders: text models that see only the tokens before."""

from __future__ import annotations

from typing import Any

from isoscope.models.loading.family import RANDOM, Family, Stack
from isoscope.models.loading.readers.text import CausalReader
from isoscope.models.loading.readers.tokenizer import load_tokenizer


def _matches(config: Any) -> int:
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, MODEL_FOR_MASKED_LM_MAPPING_NAMES

    if getattr(config, "is_encoder_decoder", False):
        return 0
    # transformers has causal heads for BERT and its kin too; these are decoders only if the configuration says so.
    causal = config.model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    masked = config.model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES
    return int(causal and (not masked or bool(getattr(config, "is_decoder", False))))


decoder = Family(
    name="decoder",
    modality="text",
    about="causal language models",
    covers={
        "GPT-2": RANDOM,
        "OPT": RANDOM,
        "GPT-J": RANDOM,
        "GPT-NeoX (Pythia)": RANDOM,
        "Llama": "SmolLM2-135M",
        "Falcon": RANDOM,
        "Qwen2": RANDOM,
        "Qwen3": RANDOM,
        "Gemma": RANDOM,
        "Gemma 2": RANDOM,
        "Gemma 3": RANDOM,
        "OLMo": RANDOM,
        "OLMo 2": RANDOM,
    },
    matches=_matches,
    stacks=lambda model: {"decoder": Stack(model)},
    processor=load_tokenizer,
    reader=CausalReader,
    loads=("folder", "hub", "GGUF"),
)
