"""Moonshine out of two int8 ONNX graphs, as a MoonshineForConditionalGeneration."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from isoscope.packages.convert.onnx_weights import OnnxFile, read_onnx
from isoscope.packages.convert.write_folder import write_settings, write_weights

CONFIG = {
    "architectures": ["MoonshineForConditionalGeneration"],
    "model_type": "moonshine",
    "vocab_size": 32768,
    "hidden_size": 288,
    "intermediate_size": 1152,
    "encoder_num_hidden_layers": 6,
    "decoder_num_hidden_layers": 6,
    "encoder_num_attention_heads": 8,
    "decoder_num_attention_heads": 8,
    "max_position_embeddings": 194,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
    "tie_word_embeddings": True,
    "is_encoder_decoder": True,
    "dtype": "float32",
}
SAMPLES = {
    "feature_extractor_type": "Wav2Vec2FeatureExtractor",
    "feature_size": 1,
    "sampling_rate": 16000,
    "padding_value": 0.0,
    "do_normalize": False,
    "return_attention_mask": False,
}
RENAMED = {"dense": "o_proj", "up_proj": "fc1", "down_proj": "fc2"}
"""Names of this exporter, and those of transformers."""


def moonshine_tiny(unpacked: Path, folder: Path) -> None:
    """Moonshine tiny: the int8 weights as float32 under the names of transformers.

    The graphs round activations to eight bits, too; this model does not.
    """
    encoder, decoder = (read_onnx(unpacked / f"{name}.onnx") for name in ("encoder_model", "decoder_model_merged"))
    weights = {f"model.encoder.{name}": array for name, array in _encoder_weights(encoder).items()}
    weights |= {f"model.decoder.{name}": array for name, array in _decoder_weights(decoder).items()}
    write_weights(weights, folder)
    write_settings(CONFIG, folder / "config.json")
    write_settings(SAMPLES, folder / "preprocessor_config.json")


def _encoder_weights(onnx: OnnxFile) -> dict[str, np.ndarray]:
    weights = _products(onnx, "/layers.") | _plain(onnx, "", ("layers.", "layer_norm.", "conv2.bias", "conv3.bias"))
    for name in ("conv1", "conv2", "conv3"):
        # For a convolution the quantiser adds a float instead of subtracting an integer.
        scale, offset = (onnx.weights[f"{name}.weight_{part}"] for part in ("scale", "zero_point"))
        weights[f"{name}.weight"] = onnx.weights[f"{name}.weight_quantized"].astype(np.float32) * scale + offset
    for name, node in (("weight", "Mul"), ("bias", "Add")):
        weights[f"groupnorm.{name}"] = onnx.weights[onnx.nodes[f"/groupnorm/{node}"][1]].ravel()
    return weights


def _decoder_weights(onnx: OnnxFile) -> dict[str, np.ndarray]:
    weights = _products(onnx, "/model/decoder/layers.") | _plain(onnx, "model.decoder.", ("layers.", "norm."))
    weights["embed_tokens.weight"] = onnx.dequantise("model.decoder.embed_tokens.weight_merged_0")
    return weights


def _products(onnx: OnnxFile, start: str) -> dict[str, np.ndarray]:
    """The matrices, which are named by the node that multiplies with them."""
    products = {}
    for node, inputs in onnx.nodes.items():
        if node.startswith(start) and node.endswith("/MatMul_quant") and inputs[1] in onnx.weights:
            name = node[start.index("layers") :].removesuffix("/MatMul_quant").replace("/", ".")
            products[f"{_rename(name)}.weight"] = onnx.dequantise(inputs[1].removesuffix("_quantized")).T
    return products


def _plain(onnx: OnnxFile, prefix: str, starts: tuple[str, ...]) -> dict[str, np.ndarray]:
    """The vectors, which keep their names."""
    floats = {name: array for name, array in onnx.weights.items() if array.dtype == np.float32}
    named = {name.removesuffix("_merged_0").removeprefix(prefix): array for name, array in floats.items()}
    return {_rename(name): array for name, array in named.items() if name.startswith(starts) and name.endswith((".weight", ".bias"))}


def _rename(name: str) -> str:
    return ".".join(RENAMED.get(part, part) for part in name.split("."))
