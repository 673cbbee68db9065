"""Models that read images: vision Transformers, with patches of one size or in stages, and convolutional networks."""

from __future__ import annotations

from typing import Any

from isoscope.models.loading.chunk import Reader
from isoscope.models.loading.family import RANDOM, Family, Stack, model_types
from isoscope.models.loading.readers.images import ImageReader, load_image_processor, past_the_square

PATCHES = ("vit", "deit", "beit", "dinov2", "dinov2_with_registers", "vit_msn", "ijepa", "data2vec-vision")
STAGES = {"segformer": "stages.*.blocks.*", "swin": "encoder.layers.*.blocks.*", "swinv2": "encoder.layers.*.blocks.*"}
"""The blocks of vision Transformers in stages, from many small patches to few large ones."""
STAGED = "encoder.stages.*.layers.*"
CONVOLUTIONS = dict.fromkeys(("resnet", "convnext", "convnextv2", "cvt", "van"), STAGED) | {"efficientnet": "encoder.blocks.*"}
"""The blocks of convolutional networks, and of CvT, which the first paper counts among them. A layer is a residual block."""


def _read_patches(model: Any, seq_len: int | None) -> Reader:
    config = model.config
    tokens = 0 if config.model_type == "ijepa" else 2 if config.model_type == "deit" else 1
    before = tokens + int(getattr(config, "num_register_tokens", 0) or 0)
    return ImageReader(model, seq_len, lambda t: before)


def _read_maps(model: Any, seq_len: int | None) -> Reader:
    # The last stage of CvT has a class token before its square of positions; a map has positions only.
    return ImageReader(model, seq_len, past_the_square if model.config.model_type == "cvt" else lambda t: 0)


vision_transformer = Family(
    name="vision_transformer",
    modality="images",
    about="vision Transformers over patches of one size",
    covers={"ViT": RANDOM, "DeiT": RANDOM, "BEiT": RANDOM, "DINOv2": "DINOv2-small"},
    matches=model_types(*PATCHES),
    stacks=lambda model: {"encoder": Stack(model)},
    processor=load_image_processor,
    reader=_read_patches,
)
hierarchical = Family(
    name="hierarchical",
    modality="images",
    about="vision Transformers in stages",
    covers={"SegFormer (MiT)": RANDOM, "Swin": RANDOM, "Swin v2": RANDOM},
    matches=model_types(*STAGES),
    stacks=lambda model: {"encoder": Stack(model, STAGES[model.config.model_type])},
    processor=load_image_processor,
    reader=ImageReader,
)
convolution = Family(
    name="convolution",
    modality="images",
    about="convolutional networks, with the states around each block's last norm and activation",
    covers={"ResNet": "ResNet-50", **dict.fromkeys(("EfficientNet", "CvT", "ConvNeXt", "ConvNeXt V2", "VAN"), RANDOM)},
    matches=model_types(*CONVOLUTIONS),
    stacks=lambda model: {"backbone": Stack(model, CONVOLUTIONS[model.config.model_type])},
    processor=load_image_processor,
    reader=_read_maps,
    without_attention=("ResNet", "EfficientNet", "ConvNeXt", "ConvNeXt V2", "VAN"),
    inner=True,
)
