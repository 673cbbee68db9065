"""BERT models that were exported to ONNX, back under the names of transformers."""

from __future__ import annotations

import json
from pathlib import Path

from isoscope.packages.convert.onnx_weights import read_onnx
from isoscope.packages.convert.write_folder import write_settings, write_weights

INPUT_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt")
POOLING = {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}


def gte_small(unpacked: Path, folder: Path) -> None:
    """gte-small as BertModel, with its mean pooling. The exporter keeps the names of vectors; a node tells which matrix it multiplies."""
    onnx = read_onnx(unpacked / "onnx" / "model.onnx")
    weights = {name: array for name, array in onnx.weights.items() if name.startswith(("embeddings.", "encoder."))}
    for node, inputs in onnx.nodes.items():
        if node.startswith("/encoder/") and node.endswith("/MatMul") and inputs[1] in onnx.weights:
            weights[node.removeprefix("/").removesuffix("/MatMul").replace("/", ".") + ".weight"] = onnx.weights[inputs[1]].T
    write_weights(weights, folder)
    config = json.loads((unpacked / "config.json").read_text("utf-8"))
    config.pop("_name_or_path", None)
    write_settings(config, folder / "config.json")
    for name in INPUT_FILES:
        (unpacked / name).rename(folder / name)
    (folder / "1_Pooling").mkdir()
    write_settings({"word_embedding_dimension": config["hidden_size"]} | POOLING, folder / "1_Pooling" / "config.json")
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    ]
    (folder / "modules.json").write_text(json.dumps(modules, indent=2), "utf-8")
