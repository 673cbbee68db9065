"""Measure a timm model, as any module: `pip install timm torchvision`, then

    python examples/measure_timm.py

This one was not run: timm imports torchvision, which cannot be installed beside the torch that isoscope is tested with.
"""

import timm
import torch

import isoscope

batches = [torch.randn(8, 3, 224, 224) for _ in range(8)]  # images, as timm.data.create_transform makes them
run = isoscope.measure(timm.create_model("vit_tiny_patch16_224", pretrained=True), batches, quiet=True)
print(run.table("mean_cosine", policy="all")[["kind", "layer", "n", "value", "low", "high"]].to_string(index=False))
