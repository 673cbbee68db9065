"""Vision Transformers over patches of one size."""

from __future__ import annotations

from typing import Any

from isoscope.models.loading.chunk import Reader
from isoscope.models.loading.family import RANDOM, Family, Stack, model_types
from isoscope.models.loading.readers.images import ImageReader, load_image_processor

TYPES = ("vit", "deit", "beit", "dinov2", "dinov2_with_registers", "vit_msn", "ijepa", "data2vec-vision")


def _make_reader(model: Any, seq_len: int | None) -> Reader:
    config = model.config
    tokens = 0 if config.model_type == "ijepa" else 2 if config.model_type == "deit" else 1
    before = tokens + int(getattr(config, "num_register_tokens", 0) or 0)
    return ImageReader(model, seq_len, lambda t: before)


vision_transformer = Family(
    name="vision_transformer",
    modality="images",
    about="vision Transformers over patches of one size",
    covers={"ViT": RANDOM, "DeiT": RANDOM, "BEiT": RANDOM, "DINOv2": "DINOv2-small"},
    matches=model_types(*TYPES),
    stacks=lambda model: {"encoder": Stack(model)},
    processor=load_image_processor,
    reader=_make_reader,
)
