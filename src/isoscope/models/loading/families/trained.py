"""Networks that `isoscope train` made: text, images and frames of speech."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from isoscope.models.loading.family import RANDOM, Family, Stack
from isoscope.models.loading.readers.frames import FrameReader
from isoscope.models.loading.readers.images import ImageReader, PlainProcessor
from isoscope.models.loading.readers.text import TextReader
from isoscope.models.loading.readers.tokenizer import load_tokenizer

HALVES = (0.5, 0.5, 0.5)
"""Mean and standard deviation that scale pixels to [-1, 1], as in training."""


def _is_trained_on(modality: str) -> Callable[[Any], int]:
    return lambda config: 3 * (config.model_type == "isoscope" and config.modality == modality)


def _stacks(model: Any) -> dict[str, Stack]:
    return {"decoder" if model.config.modality == "text" and model.config.causal else "encoder": Stack(model, "blocks.*")}


trained_text = Family(
    name="trained_text",
    modality="text",
    about="networks of text made by `isoscope train`",
    covers={"isoscope text, causal": RANDOM, "isoscope text, masked": RANDOM},
    matches=_is_trained_on("text"),
    stacks=_stacks,
    processor=load_tokenizer,
    reader=TextReader,
)
trained_images = Family(
    name="trained_images",
    modality="images",
    about="networks of small images made by `isoscope train`",
    covers={"isoscope images": RANDOM},
    matches=_is_trained_on("images"),
    stacks=_stacks,
    processor=lambda folder, config, source: PlainProcessor(int(config.image_size), HALVES, HALVES),
    reader=ImageReader,
)
trained_speech = Family(
    name="trained_speech",
    modality="speech",
    about="networks of frames of speech made by `isoscope train`",
    covers={"isoscope speech": RANDOM},
    matches=_is_trained_on("speech"),
    stacks=_stacks,
    processor=lambda folder, config, source: None,
    reader=FrameReader,
)
