"""Networks of small images that `isoscope train` made."""

from __future__ import annotations

from typing import Any

from isoscope.models.family import RANDOM, Family, Stack
from isoscope.models.readers.images import ImageReader, PlainProcessor


class _Scaled(PlainProcessor):
    """The centre of an image at the network's size, scaled to [-1, 1] as in training."""

    mean, sd = (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)


def _processor(folder: Any, config: Any, source: dict[str, Any]) -> Any:
    return _Scaled(int(config.image_size))


trained_images = Family(
    name="trained_images",
    modality="images",
    about="networks of small images made by `isoscope train`",
    covers={"isoscope images": RANDOM},
    matches=lambda config: 3 * (config.model_type == "isoscope" and config.modality == "images"),
    stacks=lambda model: {"encoder": Stack(model, "blocks.*")},
    processor=_processor,
    reader=ImageReader,
)
