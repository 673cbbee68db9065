"""OpenAI's own Whisper checkpoints: a .pt with the sizes of the model, and its weights under OpenAI's names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from isoscope.core.errors import IsoscopeError
from isoscope.models.loading.weights import unpickle
from isoscope.trust.pickles import check_tensors

if TYPE_CHECKING:
    from transformers import WhisperConfig

MULTILINGUAL = 51865
"""The first vocabulary with languages; the English one has one token fewer, and its special tokens begin one earlier."""

RENAMED = (
    (r"\.blocks\.", ".layers."),
    (r"\.cross_attn_ln\.", ".encoder_attn_layer_norm."),
    (r"\.attn_ln\.", ".self_attn_layer_norm."),
    (r"\.mlp_ln\.", ".final_layer_norm."),
    (r"\.cross_attn\.", ".encoder_attn."),
    (r"\.attn\.", ".self_attn."),
    (r"\.(query|key|value)\.", lambda match: f".{match[1][0]}_proj."),
    (r"\.out\.", ".out_proj."),
    (r"\.mlp\.0\.", ".fc1."),
    (r"\.mlp\.2\.", ".fc2."),
    (r"\.(ln|ln_post)\.", ".layer_norm."),
    (r"\.token_embedding\.", ".embed_tokens."),
    (r"\.positional_embedding$", ".embed_positions.weight"),
)


def read_whisper(path: Path) -> tuple[WhisperConfig, dict[str, Tensor]]:
    """The configuration and the weights in a .pt, as WhisperForConditionalGeneration takes them."""
    content = unpickle(path)
    if not isinstance(content, dict) or not {"dims", "model_state_dict"} <= content.keys():
        raise IsoscopeError(
            f"{path} is not a Whisper checkpoint of OpenAI, which has dims and model_state_dict; "
            "for any other .pt name a folder that holds it and config.json."
        )
    config = _make_config(path, content["dims"])
    weights = content["model_state_dict"]
    if not isinstance(weights, dict) or not all(isinstance(weight, Tensor) for weight in weights.values()):
        raise IsoscopeError(f"{path} is not a Whisper checkpoint of OpenAI: its model_state_dict holds more than tensors.")
    check_tensors(path, weights.values())
    state = {_rename(str(name)): value for name, value in weights.items() if name != "decoder.mask"}
    if "model.decoder.embed_tokens.weight" not in state:
        raise IsoscopeError(f"{path} is not a Whisper checkpoint of OpenAI: it has no table of tokens.")
    state["proj_out.weight"] = state["model.decoder.embed_tokens.weight"]  # the same table reads and writes tokens
    return config, state


def _rename(name: str) -> str:
    for pattern, replacement in RENAMED:
        name = re.sub(pattern, replacement, name)
    return f"model.{name}"


def _make_config(path: Path, dims: Any) -> WhisperConfig:
    from transformers import WhisperConfig

    if not isinstance(dims, dict) or not all(type(size) is int and 0 < size < 1 << 31 for size in dims.values()):
        raise IsoscopeError(f"{path} does not give the sizes of a Whisper model in dims: they must be positive numbers.")
    try:
        end = 50256 + (dims["n_vocab"] >= MULTILINGUAL)
        return WhisperConfig(
            vocab_size=dims["n_vocab"],
            num_mel_bins=dims["n_mels"],
            d_model=dims["n_audio_state"],
            encoder_layers=dims["n_audio_layer"],
            encoder_attention_heads=dims["n_audio_head"],
            encoder_ffn_dim=4 * dims["n_audio_state"],
            decoder_layers=dims["n_text_layer"],
            decoder_attention_heads=dims["n_text_head"],
            decoder_ffn_dim=4 * dims["n_text_state"],
            max_source_positions=dims["n_audio_ctx"],
            max_target_positions=dims["n_text_ctx"],
            eos_token_id=end,
            pad_token_id=end,
            bos_token_id=50257,
            decoder_start_token_id=end + 1,
            suppress_tokens=[],
            begin_suppress_tokens=[],
            architectures=["WhisperForConditionalGeneration"],
        )
    except (KeyError, TypeError) as error:
        raise IsoscopeError(f"{path} does not give all sizes of a Whisper model in dims ({error}).") from error
