"""Vision Transformers in stages, from many small patches to few large ones."""

from __future__ import annotations

from isoscope.models.loading.family import RANDOM, Family, Stack, model_types
from isoscope.models.loading.readers.images import ImageReader, load_image_processor

BLOCKS = {"segformer": "stages.*.blocks.*", "swin": "encoder.layers.*.blocks.*", "swinv2": "encoder.layers.*.blocks.*"}

hierarchical = Family(
    name="hierarchical",
    modality="images",
    about="vision Transformers in stages",
    covers={"SegFormer (MiT)": RANDOM, "Swin": RANDOM, "Swin v2": RANDOM},
    matches=model_types(*BLOCKS),
    stacks=lambda model: {"encoder": Stack(model, BLOCKS[model.config.model_type])},
    processor=load_image_processor,
    reader=ImageReader,
)
