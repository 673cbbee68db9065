"""Moonshine out of two quantised graphs."""

import re

import numpy as np
import torch
from transformers import MoonshineConfig, MoonshineForConditionalGeneration

from isoscope.packages.convert import moonshine
from isoscope.packages.convert.moonshine import moonshine_tiny
from tests.packages.convert.onnx_bytes import graph, model, node, quantised

SMALL = {
    "vocab_size": 20,
    "hidden_size": 16,
    "intermediate_size": 24,
    "encoder_num_hidden_layers": 1,
    "decoder_num_hidden_layers": 2,
    "encoder_num_attention_heads": 2,
    "decoder_num_attention_heads": 2,
}
EXPORTED = {"o_proj": "dense", "fc1": "up_proj", "fc2": "down_proj"}


def make_network():
    """A small network whose matrices are multiples of a half, so that eight bits hold them exactly."""
    network = MoonshineForConditionalGeneration(MoonshineConfig(**{**moonshine.CONFIG, **SMALL})).eval()
    rng = np.random.default_rng(0)
    with torch.no_grad():
        for weight in network.parameters():
            weight.copy_(torch.from_numpy(rng.integers(-3, 4, weight.shape) / 2).float())
    return network


def exported(state, stack):
    """The nodes and tensors of a stack as the exporter writes them; the decoder in a branch, with other names and a suffix."""
    prefix, suffix = ("/model/decoder/", "_merged_0") if stack == "decoder" else ("/", "")
    nodes, tensors = [], {}
    for i, (name, weight) in enumerate(state.items()):
        array = weight.numpy()
        shown = ".".join(EXPORTED.get(part, part) for part in name.split(".")) if stack == "decoder" else name.replace("o_proj", "dense")
        if re.match(r"conv\d\.weight", name):
            tensors |= {
                f"{name}_quantized": np.int8(array * 2 - 1),
                f"{name}_scale": np.float32([0.5]),
                f"{name}_zero_point": np.float32([0.5]),
            }
        elif name.startswith("groupnorm"):
            tensors[f"onnx::{i}"] = array[:, None]
            nodes.append(node(f"/groupnorm/{'Mul' if name.endswith('weight') else 'Add'}", "x", f"onnx::{i}"))
        elif name == "embed_tokens.weight":
            tensors |= quantised(f"model.decoder.{name}{suffix}", array, zero=100)
        elif array.ndim == 2:
            tensors |= quantised(f"onnx::MatMul_{i}{suffix}", array.T.copy(), zero=100)
            path = prefix + re.sub(r"\.(?=[a-z])", "/", shown.removesuffix(".weight"))
            nodes.append(node(f"{path}/MatMul_quant", "x", f"onnx::MatMul_{i}{suffix}_quantized"))
        else:
            tensors[("model.decoder." if stack == "decoder" else "") + shown + suffix] = array
    return nodes, tensors


def test_the_folder_computes_what_the_network_computed(tmp_path, monkeypatch):
    monkeypatch.setattr(moonshine, "CONFIG", {**moonshine.CONFIG, **SMALL})
    network = make_network()
    source, folder = tmp_path / "from", tmp_path / "to"
    source.mkdir()
    folder.mkdir()
    (source / "encoder_model.onnx").write_bytes(model(*exported(network.model.encoder.state_dict(), "encoder")))
    branch = graph(*exported(network.model.decoder.state_dict(), "decoder"))
    (source / "decoder_model_merged.onnx").write_bytes(model([node("If", branch=branch)], {}))
    moonshine_tiny(source, folder)
    again, report = MoonshineForConditionalGeneration.from_pretrained(folder, output_loading_info=True)
    assert not any(report.values())
    wave, ids = torch.randn(1, 4000, generator=torch.manual_seed(0)), torch.tensor([[1, 5, 7]])
    with torch.no_grad():
        one, other = (each(wave, decoder_input_ids=ids).logits for each in (network, again.eval()))
    np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)
