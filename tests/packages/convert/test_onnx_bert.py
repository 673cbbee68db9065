"""BERT out of ONNX: the graph names matrices by the node that multiplies with them."""

import json

import numpy as np
import torch
from transformers import BertConfig, BertModel

from isoscope.packages.convert.onnx_bert import INPUT_FILES, gte_small
from tests.packages.convert.onnx_bytes import model, node

SIZES = {"vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 12}


def test_the_folder_computes_what_the_exported_model_computed(tmp_path):
    config = BertConfig(**SIZES, max_position_embeddings=16)
    torch.manual_seed(0)
    bert = BertModel(config, add_pooling_layer=False).eval()
    nodes, tensors = [], {}
    for i, (name, weight) in enumerate(bert.state_dict().items()):
        if weight.ndim == 2 and name.startswith("encoder."):
            tensors[f"onnx::MatMul_{i}"] = weight.numpy().T.copy()
            path = name.removesuffix(".weight").replace(".", "/").replace("layer/", "layer.")
            nodes.append(node(f"/{path}/MatMul", "x", f"onnx::MatMul_{i}"))
        else:
            tensors[name] = weight.numpy()
    source, folder = tmp_path / "from", tmp_path / "to"
    (source / "onnx").mkdir(parents=True)
    folder.mkdir()
    (source / "onnx" / "model.onnx").write_bytes(model(nodes, tensors))
    (source / "config.json").write_text(json.dumps(config.to_dict() | {"_name_or_path": "/home/somebody"}))
    for name in INPUT_FILES:
        (source / name).write_text("{}")
    gte_small(source, folder)
    assert "_name_or_path" not in json.loads((folder / "config.json").read_text())
    again = BertModel.from_pretrained(folder, add_pooling_layer=False).eval()
    ids = torch.arange(10)[None]
    with torch.no_grad():
        np.testing.assert_array_equal(again(ids).last_hidden_state, bert(ids).last_hidden_state)
