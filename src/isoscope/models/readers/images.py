"""Images: prepared as the model was trained to see them, one piece an image."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from isoscope.models.model_errors import CANNOT_RUN, model_errors_as_user_errors, whole_number
from isoscope.models.piece import Fed, Piece, Positions

if TYPE_CHECKING:
    from isoscope.models.load import LoadedModel

MEAN, SD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of ImageNet's channels, by which models without a file of their own are fed."""
SIDE = 224


def image_processor(folder: Any, config: Any, source: dict[str, Any]) -> Any:
    """What prepares images, from the file beside the weights; resizing, centre crop and ImageNet's normalisation where there is none."""
    from transformers import AutoImageProcessor

    if (Path(folder) / "preprocessor_config.json").is_file():
        return AutoImageProcessor.from_pretrained(folder, **source)
    side = getattr(config, "image_size", None) or SIDE
    return PlainProcessor(whole_number(side[0] if isinstance(side, list | tuple) and side else side, "image_size", folder))


class PlainProcessor:
    """The shorter side to the model's size, the centre cut out, channels normalised."""

    mean, sd = MEAN, SD

    def __init__(self, side: int) -> None:
        self.side = side

    def __call__(self, images: Any, return_tensors: str = "np") -> dict[str, Any]:
        """`{"pixel_values": (1, 3, side, side)}` of one image."""
        from PIL import Image

        scale = self.side / min(images.size)
        wide, high = (max(self.side, round(length * scale)) for length in images.size)
        left, top = (wide - self.side) // 2, (high - self.side) // 2
        small = images.resize((wide, high), Image.Resampling.BICUBIC).crop((left, top, left + self.side, top + self.side))
        pixels = (np.asarray(small, dtype=np.float32) / 255 - self.mean) / self.sd
        return {"pixel_values": pixels.transpose(2, 0, 1)[None].astype(np.float32)}


class ImageReader:
    """One piece an image. `special(t)` tells how many of t positions come before the patches."""

    unit = "images"
    pads = True
    special_tokens = ""

    def __init__(self, model: LoadedModel, seq_len: int | None, special: Callable[[int], int] = lambda t: 0) -> None:
        self.model, self.special, self.seq_len = model, special, 1

    def pieces(self, content: Any) -> list[Piece]:
        """The image as pixels."""
        with model_errors_as_user_errors(self.model.reference, CANNOT_RUN):
            pixels = self.model.processor(images=content, return_tensors="np")["pixel_values"][0]
        return [Piece(np.asarray(pixels, dtype=np.float32), 1)]

    def probe(self, count: int, size: int) -> list[Piece]:
        """Images of noise."""
        from PIL import Image

        noise = np.random.default_rng(0).integers(0, 255, (SIDE, SIDE, 3), dtype=np.uint8)
        return self.pieces(Image.fromarray(noise)) * count

    def feed(self, pieces: list[Piece]) -> Fed:
        """Pixels (b, 3, h, w)."""
        pixels = torch.from_numpy(np.stack([piece.data for piece in pieces])).to(self.model.device, self.model.base.dtype)
        return Fed({"pixel_values": pixels}, lambda stack, t: [self._positions(t)] * len(pieces))

    def _positions(self, t: int) -> Positions:
        return Positions(np.arange(t) < self.special(t), ordered=False)


def past_the_square(t: int) -> int:
    """How many positions are left over from a square of patches.

    >>> past_the_square(197), past_the_square(196)
    (1, 0)
    """
    return t - math.isqrt(t) ** 2
