"""Vision models: DINOv2 out of a graph, ResNet-50 with its image processor."""

import json

import numpy as np
import torch
from transformers import Dinov2Config, Dinov2Model

from isoscope.packages.convert import vision_models
from isoscope.packages.convert.vision_models import dinov2, resnet50
from tests.packages.convert.onnx_bytes import model, node

SMALL = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 28}


def test_dinov2_computes_what_the_network_computed(tmp_path, monkeypatch):
    """The exporter drops the names of matrices and cuts the table of positions in two."""
    monkeypatch.setattr(vision_models, "DINOV2", {**vision_models.DINOV2, **SMALL})
    torch.manual_seed(0)
    network = Dinov2Model(Dinov2Config(**vision_models.DINOV2)).eval()
    nodes, tensors = [], {"decoder.weight": np.ones((2, 2), np.float32)}
    for i, (name, weight) in enumerate(network.state_dict().items()):
        array = weight.numpy()
        if name == "embeddings.position_embeddings":
            tensors |= {"class_row": array[:, :1], "patch_rows": array[:, 1:].reshape(1, 2, 2, 8)}
            nodes += [node("/backbone/embeddings/Concat_6", "class_row"), node("/backbone/embeddings/Reshape_1", "patch_rows")]
        elif array.ndim == 2:
            tensors[f"onnx::MatMul_{i}"] = array.T.copy()
            path = name.removesuffix(".weight").replace("layer.", "layer#").replace(".", "/").replace("#", ".")
            nodes.append(node(f"/backbone/{path}/MatMul", "x", f"onnx::MatMul_{i}"))
        else:
            tensors[f"backbone.{name}"] = array
    source, folder = tmp_path / "from", tmp_path / "to"
    source.mkdir()
    folder.mkdir()
    (source / "vit_s_focus.onnx").write_bytes(model(nodes, tensors))
    dinov2(source, folder)
    again, report = Dinov2Model.from_pretrained(folder, output_loading_info=True)
    assert not any(report.values())
    pixels = torch.randn(1, 3, 28, 28, generator=torch.manual_seed(1))
    with torch.no_grad():
        np.testing.assert_array_equal(again.eval()(pixels).last_hidden_state, network(pixels).last_hidden_state)


def test_resnet_is_left_as_it_is(tmp_path):
    source, folder = tmp_path / "from", tmp_path / "to"
    source.mkdir()
    folder.mkdir()
    for name in ("config.json", "model.safetensors"):
        (source / name).write_text(name)
    resnet50(source, folder)
    assert {path.name: path.read_text() for path in folder.iterdir() if path.name != "preprocessor_config.json"} == {
        "config.json": "config.json",
        "model.safetensors": "model.safetensors",
    }
    assert json.loads((folder / "preprocessor_config.json").read_text())["crop_pct"] == 0.875
