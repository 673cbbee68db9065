"""DINOv2 out of an ONNX graph, and the image processors that the vision models were trained with."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from isoscope.packages.convert.onnx_weights import read_onnx
from isoscope.packages.convert.write_folder import write_settings, write_weights

IMAGENET = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
DINOV2 = {
    "architectures": ["Dinov2Model"],
    "model_type": "dinov2",
    "hidden_size": 384,
    "num_hidden_layers": 12,
    "num_attention_heads": 6,
    "image_size": 518,
    "patch_size": 14,
    "layer_norm_eps": 1e-6,
    "use_mask_token": False,
    "dtype": "float32",
}
DINOV2_IMAGES = IMAGENET | {
    "image_processor_type": "BitImageProcessor",
    "do_resize": True,
    "size": {"shortest_edge": 256},
    "resample": 3,
    "do_center_crop": True,
    "crop_size": {"height": 224, "width": 224},
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "do_normalize": True,
    "do_convert_rgb": True,
}
RESNET_IMAGES = IMAGENET | {
    "image_processor_type": "ConvNextImageProcessor",
    "do_resize": True,
    "size": {"shortest_edge": 224},
    "crop_pct": 0.875,
    "resample": 3,
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "do_normalize": True,
}
PREFIX = "backbone."


def dinov2(unpacked: Path, folder: Path) -> None:
    """DINOv2-small under the names of its published checkpoint; the saliency decoder that follows it in the graph is left out.

    The exporter keeps the names of vectors and drops those of matrices, which are told by the node that multiplies with them. It also
    cuts the table of positions in two: that of the class token, and those of the 37 × 37 patches.
    """
    onnx = read_onnx(unpacked / "vit_s_focus.onnx")
    weights = {name.removeprefix(PREFIX): array for name, array in onnx.weights.items() if name.startswith(PREFIX)}
    for node, inputs in onnx.nodes.items():
        if node.startswith("/backbone/encoder/") and node.endswith("/MatMul") and inputs[1] in onnx.weights:
            weights[node.removeprefix("/backbone/").removesuffix("/MatMul").replace("/", ".") + ".weight"] = onnx.weights[inputs[1]].T
    of_class = onnx.weights[onnx.nodes["/backbone/embeddings/Concat_6"][0]]
    of_patches = onnx.weights[onnx.nodes["/backbone/embeddings/Reshape_1"][0]]
    weights["embeddings.position_embeddings"] = np.concatenate([of_class, of_patches.reshape(1, -1, of_class.shape[-1])], axis=1)
    write_weights(weights, folder)
    write_settings(DINOV2, folder / "config.json")
    write_settings(DINOV2_IMAGES, folder / "preprocessor_config.json")


def resnet50(unpacked: Path, folder: Path) -> None:
    """ResNet-50 as it is, with the image processor of the checkpoint that it was tuned from."""
    for name in ("config.json", "model.safetensors"):
        (unpacked / name).rename(folder / name)
    write_settings(RESNET_IMAGES, folder / "preprocessor_config.json")
