"""Convolutional networks, and CvT, which the first paper counts among them. A layer is a residual block."""

from __future__ import annotations

from typing import Any

from isoscope.models.loading.chunk import Reader
from isoscope.models.loading.family import RANDOM, Family, Stack, model_types
from isoscope.models.loading.readers.images import ImageReader, load_image_processor, past_the_square

STAGED = "encoder.stages.*.layers.*"
BLOCKS = {"resnet": STAGED, "convnext": STAGED, "convnextv2": STAGED, "cvt": STAGED, "van": STAGED, "efficientnet": "encoder.blocks.*"}


def _make_reader(model: Any, seq_len: int | None) -> Reader:
    # The last stage of CvT has a class token before its square of positions; a map has positions only.
    return ImageReader(model, seq_len, past_the_square if model.config.model_type == "cvt" else lambda t: 0)


convolution = Family(
    name="convolution",
    modality="images",
    about="convolutional networks, with the states around each block's last norm and activation",
    covers={
        "ResNet": "ResNet-50",
        "EfficientNet": RANDOM,
        "CvT": RANDOM,
        "ConvNeXt": RANDOM,
        "ConvNeXt V2": RANDOM,
        "VAN": RANDOM,
    },
    matches=model_types(*BLOCKS),
    stacks=lambda model: {"backbone": Stack(model, BLOCKS[model.config.model_type])},
    processor=load_image_processor,
    reader=_make_reader,
    without_attention=("ResNet", "EfficientNet", "ConvNeXt", "ConvNeXt V2", "VAN"),
    inner=True,
)
