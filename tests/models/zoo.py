"""A small model with random weights of every architecture that `isoscope list families` names, as a hub would give it.

Each entry: how to build it, what beside the weights a user's folder would hold, and the sites that must be found, as
`stack:blocks` with `+final` where a final norm follows the last block.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class Small:
    """One architecture: the class whose weights are saved, its configuration, and the sites it must show."""

    title: str
    family: str
    model: str
    config: dict
    sites: str
    tokenizer: str = "around"  # around, plain, bytes, characters, none


B = {"vocab_size": 80, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 48}
L = B | {"max_position_embeddings": 64}
D = L | {"bos_token_id": 2, "eos_token_id": 3, "pad_token_id": 0}
T5 = {"vocab_size": 80, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 3, "num_decoder_layers": 2, "num_heads": 4}
V = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 48, "image_size": 32, "patch_size": 8}
W = {
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "conv_dim": (16, 16),
    "conv_kernel": (10, 8),
    "conv_stride": (20, 16),
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
}
OWN = L | {"outputs": 80}

ZOO = [
    Small("BERT", "encoder", "BertForMaskedLM", L, "encoder:3"),
    Small("RoBERTa", "encoder", "RobertaForMaskedLM", L | {"max_position_embeddings": 70, "pad_token_id": 0}, "encoder:3"),
    Small("ALBERT", "encoder", "AlbertForMaskedLM", L | {"embedding_size": 16}, "encoder:3"),
    Small("ELECTRA", "encoder", "ElectraForMaskedLM", L | {"embedding_size": 16}, "encoder:3"),
    Small(
        "DistilBERT",
        "encoder",
        "DistilBertForMaskedLM",
        {"vocab_size": 80, "dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 48, "max_position_embeddings": 64},
        "encoder:3",
    ),
    Small(
        "MPNet",
        "encoder",
        "MPNetForMaskedLM",
        L | {"max_position_embeddings": 70, "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3},
        "encoder:3",
    ),
    Small(
        "DeBERTa-v2",
        "encoder",
        "DebertaV2ForMaskedLM",
        L
        | {
            "relative_attention": True,
            "pos_att_type": ["p2c", "c2p"],
            "position_buckets": 16,
            "norm_rel_ebd": "layer_norm",
            "share_att_key": True,
        },
        "encoder:3",
    ),
    Small(
        "ModernBERT",
        "encoder",
        "ModernBertForMaskedLM",
        D | {"cls_token_id": 2, "sep_token_id": 3, "local_attention": 8},
        "encoder:3+final",
    ),
    Small(
        "GPT-2",
        "decoder",
        "GPT2LMHeadModel",
        {"vocab_size": 80, "n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 64, "bos_token_id": 2, "eos_token_id": 3},
        "decoder:3+final",
        "plain",
    ),
    Small(
        "OPT",
        "decoder",
        "OPTForCausalLM",
        {
            "vocab_size": 80,
            "hidden_size": 32,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "ffn_dim": 48,
            "max_position_embeddings": 64,
            "word_embed_proj_dim": 32,
        },
        "decoder:3+final",
        "plain",
    ),
    Small(
        "GPT-J",
        "decoder",
        "GPTJForCausalLM",
        {
            "vocab_size": 80,
            "n_embd": 32,
            "n_layer": 3,
            "n_head": 4,
            "n_positions": 64,
            "rotary_dim": 4,
            "bos_token_id": 2,
            "eos_token_id": 3,
        },
        "decoder:3+final",
        "plain",
    ),
    Small("GPT-NeoX (Pythia)", "decoder", "GPTNeoXForCausalLM", D, "decoder:3+final", "plain"),
    Small("Llama", "decoder", "LlamaForCausalLM", D | {"num_key_value_heads": 2}, "decoder:3+final", "plain"),
    Small(
        "Falcon",
        "decoder",
        "FalconForCausalLM",
        {k: v for k, v in D.items() if k != "intermediate_size"} | {"new_decoder_architecture": True, "num_kv_heads": 2},
        "decoder:3+final",
        "plain",
    ),
    Small("Qwen2", "decoder", "Qwen2ForCausalLM", D | {"num_key_value_heads": 2}, "decoder:3+final", "plain"),
    Small("Qwen3", "decoder", "Qwen3ForCausalLM", D | {"num_key_value_heads": 2, "head_dim": 8}, "decoder:3+final", "plain"),
    Small("Gemma", "decoder", "GemmaForCausalLM", D | {"num_key_value_heads": 2, "head_dim": 8}, "decoder:3+final", "plain"),
    Small(
        "Gemma 2",
        "decoder",
        "Gemma2ForCausalLM",
        D | {"num_key_value_heads": 2, "head_dim": 8, "sliding_window": 8},
        "decoder:3+final",
        "plain",
    ),
    Small(
        "Gemma 3",
        "decoder",
        "Gemma3ForCausalLM",
        D
        | {
            "num_key_value_heads": 2,
            "head_dim": 8,
            "sliding_window": 8,
            # A row of padding that sees nothing in its window has an arbitrary state. In a full layer after that it would be compared.
            "layer_types": ["full_attention", "sliding_attention", "sliding_attention"],
        },
        "decoder:3+final",
        "plain",
    ),
    Small("OLMo", "decoder", "OlmoForCausalLM", D | {"num_key_value_heads": 2}, "decoder:3+final", "plain"),
    Small("OLMo 2", "decoder", "Olmo2ForCausalLM", D | {"num_key_value_heads": 2}, "decoder:3+final", "plain"),
    Small("T5", "encoder_decoder", "T5ForConditionalGeneration", T5, "encoder:3+final decoder:2+final"),
    Small(
        "Flan-T5",
        "encoder_decoder",
        "T5ForConditionalGeneration",
        T5 | {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
        "encoder:3+final decoder:2+final",
    ),
    Small("T5 encoder", "encoder_decoder", "T5EncoderModel", T5, "encoder:3+final"),
    Small(
        "BART",
        "encoder_decoder",
        "BartForConditionalGeneration",
        {
            "vocab_size": 80,
            "d_model": 32,
            "encoder_layers": 3,
            "decoder_layers": 2,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 4,
            "encoder_ffn_dim": 48,
            "decoder_ffn_dim": 48,
            "max_position_embeddings": 64,
            "bos_token_id": 2,
            "eos_token_id": 3,
            "pad_token_id": 0,
            "decoder_start_token_id": 3,
            "forced_eos_token_id": 3,
        },
        "encoder:3 decoder:2",
    ),
    Small(
        "CANINE-s",
        "canine",
        "CanineModel",
        {k: v for k, v in B.items() if k != "vocab_size"}
        | {"max_position_embeddings": 256, "num_hash_buckets": 256, "num_hash_functions": 4, "local_transformer_stride": 16},
        "characters:1 encoder:3 characters_out:1",
        "characters",
    ),
    Small(
        "CANINE-c",
        "canine",
        "CanineModel",
        {k: v for k, v in B.items() if k != "vocab_size"}
        | {"max_position_embeddings": 256, "num_hash_buckets": 256, "num_hash_functions": 8, "local_transformer_stride": 16},
        "characters:1 encoder:3 characters_out:1",
        "characters",
    ),
    Small(
        "ByT5",
        "byt5",
        "T5ForConditionalGeneration",
        T5 | {"vocab_size": 384, "feed_forward_proj": "gated-gelu", "tokenizer_class": "ByT5Tokenizer"},
        "encoder:3+final decoder:2+final",
        "bytes",
    ),
    Small("wav2vec 2.0", "wav2vec2", "Wav2Vec2Model", W, "encoder:3", "none"),
    Small(
        "wav2vec 2.0 (large)",
        "wav2vec2",
        "Wav2Vec2Model",
        W | {"do_stable_layer_norm": True, "feat_extract_norm": "layer"},
        "encoder:3+final",
        "none",
    ),
    Small("HuBERT", "wav2vec2", "HubertModel", W, "encoder:3", "none"),
    Small("WavLM", "wav2vec2", "WavLMModel", W, "encoder:3", "none"),
    Small(
        "Whisper",
        "whisper",
        "WhisperForConditionalGeneration",
        {
            "vocab_size": 80,
            "num_mel_bins": 20,
            "d_model": 32,
            "encoder_layers": 3,
            "decoder_layers": 2,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 4,
            "encoder_ffn_dim": 48,
            "decoder_ffn_dim": 48,
            "max_source_positions": 50,
            "max_target_positions": 12,
            "bos_token_id": 2,
            "eos_token_id": 3,
            "pad_token_id": 3,
            "decoder_start_token_id": 2,
            "suppress_tokens": None,
            "begin_suppress_tokens": None,
        },
        "encoder:3+final decoder:2+final",
        "none",
    ),
    Small(
        "Moonshine",
        "moonshine",
        "MoonshineForConditionalGeneration",
        {
            "vocab_size": 80,
            "hidden_size": 32,
            "intermediate_size": 48,
            "encoder_num_hidden_layers": 3,
            "decoder_num_hidden_layers": 2,
            "encoder_num_attention_heads": 4,
            "decoder_num_attention_heads": 4,
            "max_position_embeddings": 12,
            "bos_token_id": 2,
            "eos_token_id": 3,
            "pad_token_id": 3,
            "decoder_start_token_id": 2,
        },
        "encoder:3+final decoder:2+final",
        "none",
    ),
    Small("ViT", "vision_transformer", "ViTForImageClassification", V, "encoder:3+final", "none"),
    Small("DeiT", "vision_transformer", "DeiTForImageClassification", V, "encoder:3+final", "none"),
    Small("BEiT", "vision_transformer", "BeitForImageClassification", V, "encoder:3", "none"),
    Small(
        "DINOv2",
        "vision_transformer",
        "Dinov2Model",
        {k: v for k, v in V.items() if k != "intermediate_size"} | {"mlp_ratio": 2},
        "encoder:3+final",
        "none",
    ),
    Small(
        "SegFormer (MiT)",
        "hierarchical",
        "SegformerForImageClassification",
        {
            "num_encoder_blocks": 3,
            "depths": [1, 2, 1],
            "sr_ratios": [4, 2, 1],
            "hidden_sizes": [8, 16, 24],
            "patch_sizes": [7, 3, 3],
            "strides": [4, 2, 2],
            "num_attention_heads": [1, 2, 2],
            "mlp_ratios": [2, 2, 2],
            "image_size": 32,
        },
        "encoder:4+final",
        "none",
    ),
    Small(
        "Swin",
        "hierarchical",
        "SwinForImageClassification",
        {"image_size": 32, "patch_size": 2, "embed_dim": 8, "depths": [2, 1], "num_heads": [2, 2], "window_size": 4},
        "encoder:3+final",
        "none",
    ),
    Small(
        "Swin v2",
        "hierarchical",
        "Swinv2ForImageClassification",
        {"image_size": 32, "patch_size": 2, "embed_dim": 8, "depths": [2, 1], "num_heads": [2, 2], "window_size": 4},
        "encoder:3+final",
        "none",
    ),
    Small(
        "ResNet",
        "convolution",
        "ResNetForImageClassification",
        {"embedding_size": 8, "hidden_sizes": [16, 32], "depths": [1, 2], "layer_type": "bottleneck", "image_size": 32},
        "backbone:3",
        "none",
    ),
    Small(
        "EfficientNet",
        "convolution",
        "EfficientNetForImageClassification",
        {
            "image_size": 32,
            "width_coefficient": 0.25,
            "depth_coefficient": 0.3,
            "hidden_dim": 320,
            "in_channels": [32, 16, 24],
            "out_channels": [16, 24, 40],
            "kernel_sizes": [3, 3, 5],
            "strides": [1, 2, 2],
            "num_block_repeats": [1, 2, 2],
            "expand_ratios": [1, 6, 6],
        },
        "backbone:3",
        "none",
    ),
    Small(
        "CvT",
        "convolution",
        "CvtForImageClassification",
        {
            "patch_sizes": [7, 3, 3],
            "patch_stride": [4, 2, 2],
            "patch_padding": [2, 1, 1],
            "embed_dim": [8, 16, 24],
            "num_heads": [1, 2, 2],
            "depth": [1, 2, 3],
            "image_size": 64,
        },
        "backbone:6",
        "none",
    ),
    Small(
        "ConvNeXt",
        "convolution",
        "ConvNextForImageClassification",
        {"hidden_sizes": [8, 16], "depths": [1, 2], "num_stages": 2, "image_size": 32},
        "backbone:3",
        "none",
    ),
    Small(
        "ConvNeXt V2",
        "convolution",
        "ConvNextV2ForImageClassification",
        {"hidden_sizes": [8, 16], "depths": [1, 2], "num_stages": 2, "image_size": 32},
        "backbone:3",
        "none",
    ),
    Small(
        "VAN",
        "convolution",
        "VanForImageClassification",
        {"hidden_sizes": [4, 8, 12, 16], "depths": [1, 2, 1, 1], "layer_scale_init_value": 0.7, "image_size": 64},
        "backbone:5+final",
        "none",
    ),
    Small(
        "CharacterBERT",
        "character_bert",
        "CharacterBertForPreTraining",
        {k: v for k, v in L.items() if k != "vocab_size"} | {"mlm_vocab_size": 80, "cnn_filters": [[1, 8], [3, 8]]},
        "encoder:3",
        "words",
    ),
    Small(
        "MANTa-LM",
        "manta_lm",
        "MantaForConditionalGeneration",
        {k: v for k, v in T5.items() if k != "vocab_size"}
        | {
            "feed_forward_proj": "gated-gelu",
            "byte_embedding_dim": 16,
            "frontier_predictor_num_layers": 1,
            "frontier_predictor_num_attention_heads": 2,
            "frontier_predictor_attention_window": 4,
            "max_length_inputs": 64,
            "max_length_encoder_decoder": 64,
        },
        "encoder:3+final decoder:2+final",
        "bytes",
    ),
    Small("isoscope text, causal", "trained_text", "SmallTransformer", OWN | {"causal": True}, "decoder:3+final", "plain"),
    Small("isoscope text, masked", "trained_text", "SmallTransformer", OWN | {"rotary": False, "norm": "post"}, "encoder:3", "plain"),
    Small(
        "isoscope images",
        "trained_images",
        "SmallTransformer",
        OWN | {"modality": "images", "rotary": False, "outputs": 5},
        "encoder:3+final",
        "none",
    ),
    Small(
        "isoscope speech",
        "trained_speech",
        "SmallTransformer",
        OWN | {"modality": "speech", "outputs": 40, "band_mean": [0.0] * 40, "band_sd": [1.0] * 40},
        "encoder:3+final",
        "none",
    ),
]


def kind_of(small: Small):
    """The class of the model: transformers' own, or one written here."""
    import transformers

    from isoscope.models.loading.architectures import register_architectures

    return register_architectures().get(small.model) or getattr(transformers, small.model)


def build(small: Small, folder: Path) -> Path:
    """Save the model, spread out so that layers differ, with what a user's folder holds beside it."""
    import torch
    import transformers

    from tests.conftest import word_tokenizer

    torch.manual_seed(0)
    kind = kind_of(small)
    model = kind(kind.config_class(**small.config))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    model.save_pretrained(folder)
    if small.tokenizer in ("around", "plain"):
        word_tokenizer(folder, around=small.tokenizer == "around")
    elif small.tokenizer == "bytes":
        transformers.ByT5Tokenizer(model_max_length=64, extra_ids=0).save_pretrained(folder)
    elif small.tokenizer == "characters":
        transformers.CanineTokenizer(model_max_length=256).save_pretrained(folder)
    return folder


def clips(folder: Path) -> Path:
    """Made-up clips of several lengths, two of one length."""
    import soundfile

    rng = np.random.default_rng(0)
    for i, seconds in enumerate((0.5, 0.8, 0.8, 1.3, 0.31)):
        time = np.arange(int(16_000 * seconds)) / 16_000
        wave = np.sin(2 * np.pi * rng.uniform(100, 3000) * time) * np.exp(-time) + 0.1 * rng.standard_normal(len(time))
        soundfile.write(folder / f"{i}.wav", 0.4 * wave, 16_000)
    return folder


def images(folder: Path) -> Path:
    """Made-up images of several sizes."""
    from PIL import Image

    rng = np.random.default_rng(0)
    for i, (wide, high) in enumerate([(40, 40), (64, 48), (50, 90), (32, 32), (70, 70)]):
        coarse = Image.fromarray(rng.integers(0, 255, (5, 5, 3), dtype=np.uint8))
        coarse.resize((wide, high)).save(folder / f"{i}.png")
    return folder
