"""The encoder of T5 out of a quantised graph."""

import json

import numpy as np
import torch
from transformers import T5Config, T5EncoderModel

from isoscope.packages.convert import t5_encoder
from isoscope.packages.convert.t5_encoder import t5
from tests.packages.convert.onnx_bytes import model, node, quantised

SMALL = {"vocab_size": 20, "d_model": 8, "d_kv": 4, "d_ff": 12, "num_layers": 2, "num_heads": 2}


def test_the_folder_computes_what_the_network_computed(tmp_path, monkeypatch):
    monkeypatch.setattr(t5_encoder, "CONFIG", {**t5_encoder.CONFIG, **SMALL})
    network = T5EncoderModel(T5Config(**t5_encoder.CONFIG)).eval()
    rng = np.random.default_rng(0)
    nodes, tensors = [], {}
    with torch.no_grad():
        for i, (name, weight) in enumerate(network.named_parameters()):
            weight.copy_(torch.from_numpy(rng.integers(-3, 4, weight.shape) / 2).float())
            array, path = weight.numpy(), name.replace("shared", "encoder.embed_tokens").removeprefix("encoder.")
            if name.endswith("norm.weight"):
                tensors[f"enc.{path}"] = array
            elif "embed_tokens" in path or "relative_attention_bias" in path:
                tensors |= quantised(f"enc.{path}", array)
            else:
                tensors |= quantised(f"onnx::MatMul_{i}", array.T.copy())
                parts = (
                    path.removesuffix(".weight").replace("block.", "block#").replace("layer.", "layer#").replace(".", "/").replace("#", ".")
                )
                nodes.append(node(f"/enc/{parts}/MatMul_quant", "x", f"onnx::MatMul_{i}_quantized"))
    source, folder = tmp_path / "from", tmp_path / "to"
    source.mkdir()
    folder.mkdir()
    (source / "encoder.onnx").write_bytes(model(nodes, tensors))
    (source / "tokenizer.json").write_text(json.dumps({"truncation": {"max_length": 48}, "padding": {"length": 48}, "model": "x"}))
    t5(source, folder)
    again, report = T5EncoderModel.from_pretrained(folder, output_loading_info=True)
    assert not report["missing_keys"]
    ids = torch.arange(10)[None]
    with torch.no_grad():
        np.testing.assert_array_equal(again.eval()(ids).last_hidden_state, network(ids).last_hidden_state)
    assert json.loads((folder / "tokenizer.json").read_text()) == {"truncation": None, "padding": None, "model": "x"}
