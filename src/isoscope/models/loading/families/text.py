"""Models that read text: encoders, decoders, and encoder–decoders, ByT5 among them."""

from __future__ import annotations

from typing import Any

from isoscope.models.loading.family import RANDOM, Family, Stack, model_types
from isoscope.models.loading.readers.text import CausalReader, PairReader, TextReader
from isoscope.models.loading.readers.tokenizer import load_tokenizer

ENCODERS = ("BERT", "RoBERTa", "ALBERT", "ELECTRA", "DistilBERT", "MPNet", "DeBERTa-v2", "ModernBERT")
DECODERS = (
    *("GPT-2", "OPT", "GPT-J", "GPT-NeoX (Pythia)", "Llama", "Falcon", "Qwen2", "Qwen3"),
    *("Gemma", "Gemma 2", "Gemma 3", "OLMo", "OLMo 2"),
)


def _matches_encoder(config: Any) -> int:
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

    is_encoder = not getattr(config, "is_encoder_decoder", False) and not getattr(config, "is_decoder", False)
    return int(is_encoder and config.model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES)


def _matches_decoder(config: Any) -> int:
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, MODEL_FOR_MASKED_LM_MAPPING_NAMES

    if getattr(config, "is_encoder_decoder", False):
        return 0
    # transformers has causal heads for BERT and its kin too; these are decoders only if the configuration says so.
    causal = config.model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    masked = config.model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES
    return int(causal and (not masked or bool(getattr(config, "is_decoder", False))))


def _matches_encoder_decoder(config: Any) -> int:
    from transformers.models.auto.modeling_auto import MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES

    return int(config.model_type in MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES)


def _encoder_and_decoder(model: Any) -> dict[str, Stack]:
    encoder = {"encoder": Stack(model.get_encoder())}
    return encoder | ({"decoder": Stack(model.decoder)} if hasattr(model, "decoder") else {})


encoder = Family(
    name="encoder",
    modality="text",
    about="masked language models and sentence encoders",
    covers=dict.fromkeys(ENCODERS, RANDOM) | {"BERT": "all-MiniLM-L6-v2, AntiBERTy", "ALBERT": "RXNMapper"},
    matches=_matches_encoder,
    stacks=lambda model: {"encoder": Stack(model)},
    processor=load_tokenizer,
    reader=TextReader,
)
decoder = Family(
    name="decoder",
    modality="text",
    about="causal language models",
    covers=dict.fromkeys(DECODERS, RANDOM) | {"Llama": "SmolLM2-135M"},
    matches=_matches_decoder,
    stacks=lambda model: {"decoder": Stack(model)},
    processor=load_tokenizer,
    reader=CausalReader,
    loads=("folder", "hub", "GGUF"),
)
encoder_decoder = Family(
    name="encoder_decoder",
    modality="text",
    about="sequence-to-sequence models, and their encoders alone",
    covers={"T5": RANDOM, "Flan-T5": RANDOM, "T5 encoder": "a distilled Flan-T5-small's", "BART": RANDOM},
    matches=_matches_encoder_decoder,
    stacks=_encoder_and_decoder,
    processor=load_tokenizer,
    reader=PairReader,
)
byt5 = Family(
    name="byt5",
    modality="characters",
    about="T5 over bytes",
    covers={"ByT5": RANDOM},
    matches=model_types("t5", "mt5", tokenizer_class="ByT5Tokenizer"),  # its type is that of T5: only the tokenizer tells them apart
    stacks=_encoder_and_decoder,
    processor=load_tokenizer,
    reader=PairReader,
)
