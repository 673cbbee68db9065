"""Networks that `isoscope train` made: text, images and frames of speech."""

from __future__ import annotations

from typing import Any

import numpy as np

from isoscope.core.source import Clip
from isoscope.models.loading.chunk import Chunk, ModelInput, plain_positions, stack_chunks
from isoscope.models.loading.family import RANDOM, Family, LoadedModel, Stack, model_types
from isoscope.models.loading.readers.images import ImageReader, PlainProcessor
from isoscope.models.loading.readers.text import TextReader
from isoscope.models.loading.readers.tokenizer import load_tokenizer
from isoscope.sources.speech import FRAME_RATE, mel_frames, resample

HALVES = (0.5, 0.5, 0.5)
"""Mean and standard deviation that scale pixels to [-1, 1], as in training."""


class FrameReader:
    """Windows of mel frames, each band scaled as in training. Windows of different lengths do not share a batch."""

    unit = "frames"
    pads = False
    special_tokens = ""

    def __init__(self, model: LoadedModel, seq_len: int | None) -> None:
        self.model, config = model, model.config
        self.seq_len = min(seq_len or config.max_position_embeddings, config.max_position_embeddings)
        self.mean, self.sd = (np.asarray(part, np.float32) for part in (config.band_mean, config.band_sd))

    def chunks(self, content: Clip) -> list[Chunk]:
        """Cut a clip into windows of at most `seq_len` frames."""
        scaled = (mel_frames(resample(content.samples, content.rate, FRAME_RATE), self.model.config.bands) - self.mean) / self.sd
        windows = ((start, scaled[start : start + self.seq_len]) for start in range(0, len(scaled), self.seq_len))
        return [Chunk(window, len(window), start) for start, window in windows]

    def probe(self, count: int, size: int) -> list[Chunk]:
        """Windows of noise."""
        n = min(size, self.seq_len)
        noise = np.random.default_rng(0).standard_normal((n, self.model.config.bands)).astype(np.float32)
        return [Chunk(noise, n)] * count

    def feed(self, chunks: list[Chunk]) -> ModelInput:
        """Frames (b, t, bands), all of which count."""
        return ModelInput({"input_features": stack_chunks(chunks, self.model.device, self.model.base.dtype)}, plain_positions(chunks))


def _make_family(modality: str, about: str, covers: tuple[str, ...], processor: Any, reader: Any) -> Family:
    return Family(
        name=f"trained_{modality}",
        modality=modality,
        about=f"networks of {about} made by `isoscope train`",
        covers=dict.fromkeys(covers, RANDOM),
        matches=model_types("isoscope", modality=modality),
        stacks=_stacks,
        processor=processor,
        reader=reader,
    )


def _stacks(model: Any) -> dict[str, Stack]:
    return {"decoder" if model.config.modality == "text" and model.config.causal else "encoder": Stack(model, "blocks.*")}


def _make_image_processor(folder: Any, config: Any, source: dict[str, Any]) -> Any:
    return PlainProcessor(int(config.image_size), HALVES, HALVES)


trained_text = _make_family("text", "text", ("isoscope text, causal", "isoscope text, masked"), load_tokenizer, TextReader)
trained_images = _make_family("images", "small images", ("isoscope images",), _make_image_processor, ImageReader)
trained_speech = _make_family("speech", "frames of speech", ("isoscope speech",), lambda *_: None, FrameReader)
