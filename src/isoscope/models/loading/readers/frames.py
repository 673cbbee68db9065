"""Frames of speech, for the networks that `isoscope train` makes."""

from __future__ import annotations

import numpy as np

from isoscope.core.source import Clip
from isoscope.models.loading.chunk import Chunk, ModelInput
from isoscope.models.loading.family import LoadedModel
from isoscope.models.loading.readers.batching import plain_positions, stack_chunks
from isoscope.sources.speech import FRAME_RATE, mel_frames, resample


class FrameReader:
    """Windows of mel_frames, each band scaled as in training. Windows of different lengths do not share a batch."""

    unit = "frames"
    pads = False
    special_tokens = ""

    def __init__(self, model: LoadedModel, seq_len: int | None) -> None:
        self.model, config = model, model.config
        self.seq_len = min(seq_len or config.max_position_embeddings, config.max_position_embeddings)
        self.mean, self.sd = (np.asarray(part, np.float32) for part in (config.band_mean, config.band_sd))

    def chunks(self, content: Clip) -> list[Chunk]:
        """Cut a clip into windows of at most `seq_len` mel_frames."""
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
        return ModelInput({"input_features": stack_chunks(chunks, self.model)}, plain_positions(chunks))
