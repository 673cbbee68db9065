"""Images: prepared as the model was trained to see them, one chunk per image."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from isoscope.models.loading.chunk import Chunk, ModelInput, Positions, stack_chunks
from isoscope.models.loading.family import LoadedModel
from isoscope.models.loading.file_limits import require_count
from isoscope.models.model_errors import CANNOT_RUN, model_errors_as_user_errors

MEAN, SD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Mean and standard deviation of ImageNet's channels, for models without a file that says otherwise."""
SIDE = 224


def load_image_processor(folder: Any, config: Any, source: dict[str, Any]) -> Any:
    """Load the image processor next to the weights; without one, resize, crop the centre and normalise as for ImageNet."""
    from transformers import AutoImageProcessor

    if (Path(folder) / "preprocessor_config.json").is_file():
        return AutoImageProcessor.from_pretrained(folder, **source)
    side = getattr(config, "image_size", None) or SIDE
    return PlainProcessor(require_count(side[0] if isinstance(side, list | tuple) and side else side, "image_size", folder))


class PlainProcessor:
    """Resizes the shorter side to the model's size, crops the centre and normalises the channels."""

    def __init__(self, side: int, mean: tuple[float, ...] = MEAN, sd: tuple[float, ...] = SD) -> None:
        self.side, self.mean, self.sd = side, mean, sd

    def __call__(self, images: Any, return_tensors: str = "np") -> dict[str, Any]:
        """`{"pixel_values": (1, 3, side, side)}` for one image."""
        from PIL import Image

        scale = self.side / min(images.size)
        # max: rounding could leave a side one pixel short of the crop.
        wide, high = (max(self.side, round(length * scale)) for length in images.size)
        left, top = (wide - self.side) // 2, (high - self.side) // 2
        small = images.resize((wide, high), Image.Resampling.BICUBIC).crop((left, top, left + self.side, top + self.side))
        pixels = (np.asarray(small, dtype=np.float32) / 255 - self.mean) / self.sd
        return {"pixel_values": pixels.transpose(2, 0, 1)[None].astype(np.float32)}


class ImageReader:
    """One chunk per image. `count_special(t)` says how many of t positions come before the patches."""

    unit = "images"
    pads = True
    special_tokens = ""

    def __init__(self, model: LoadedModel, seq_len: int | None, count_special: Callable[[int], int] = lambda t: 0) -> None:
        self.model, self.count_special, self.seq_len = model, count_special, 1

    def chunks(self, content: Any) -> list[Chunk]:
        """The image as pixels."""
        with model_errors_as_user_errors(self.model.reference, CANNOT_RUN):
            pixels = self.model.processor(images=content, return_tensors="np")["pixel_values"][0]
        return [Chunk(np.asarray(pixels, dtype=np.float32), 1)]

    def probe(self, count: int, size: int) -> list[Chunk]:
        """Images of noise."""
        from PIL import Image

        noise = np.random.default_rng(0).integers(0, 255, (SIDE, SIDE, 3), dtype=np.uint8)
        return self.chunks(Image.fromarray(noise)) * count

    def feed(self, chunks: list[Chunk]) -> ModelInput:
        """Pixels (b, 3, h, w)."""
        pixels = stack_chunks(chunks, self.model.device, self.model.base.dtype)

        def positions(stack: str, t: int) -> list[Positions]:
            return [Positions(np.arange(t) < self.count_special(t), ordered=False)] * len(chunks)

        return ModelInput({"pixel_values": pixels}, positions)


def past_the_square(t: int) -> int:
    """The number of positions in addition to a square of patches.

    >>> past_the_square(197), past_the_square(196)
    (1, 0)
    """
    return t - math.isqrt(t) ** 2
