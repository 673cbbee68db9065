"""The encoder of flan-t5-small out of an int8 ONNX graph, as a T5EncoderModel."""

from __future__ import annotations

import json
from pathlib import Path

from isoscope.packages.convert.onnx_weights import read_onnx
from isoscope.packages.convert.write_folder import write_settings, write_weights

CONFIG = {
    "architectures": ["T5EncoderModel"],
    "model_type": "t5",
    "vocab_size": 32128,
    "d_model": 512,
    "d_kv": 64,
    "d_ff": 1024,
    "num_layers": 8,
    "num_heads": 6,
    "feed_forward_proj": "gated-gelu",
    "relative_attention_num_buckets": 32,
    "relative_attention_max_distance": 128,
    "layer_norm_epsilon": 1e-6,
    "pad_token_id": 0,
    "eos_token_id": 1,
    "is_encoder_decoder": False,
    "dtype": "float32",
}
TOKENS = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "pad_token": "<pad>",
    "eos_token": "</s>",
    "unk_token": "<unk>",
    "model_max_length": 512,
}


def t5(unpacked: Path, folder: Path) -> None:
    """The encoder's int8 weights as float32 under T5's names; matrices are told by the node that multiplies with them."""
    onnx = read_onnx(unpacked / "encoder.onnx")
    weights = {name.replace("enc.", "encoder.", 1): array for name, array in onnx.weights.items() if name.endswith("norm.weight")}
    for name in [name.removesuffix("_quantized") for name in onnx.weights if name.startswith("enc.") and name.endswith("_quantized")]:
        weights[name.replace("enc.", "encoder.", 1)] = onnx.dequantise(name)
    weights["shared.weight"] = weights.pop("encoder.embed_tokens.weight")
    for node, inputs in onnx.nodes.items():
        if node.startswith("/enc/block.") and node.endswith("/MatMul_quant"):
            name = node.removeprefix("/enc/").removesuffix("/MatMul_quant").replace("/", ".")
            weights[f"encoder.{name}.weight"] = onnx.dequantise(inputs[1].removesuffix("_quantized")).T
    write_weights(weights, folder)
    tokenizer = json.loads((unpacked / "tokenizer.json").read_text("utf-8"))
    tokenizer |= {"truncation": None, "padding": None}  # the package's own limit of 48 tokens is not the model's
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False), "utf-8")
    write_settings(TOKENS, folder / "tokenizer_config.json")
    write_settings(CONFIG, folder / "config.json")
