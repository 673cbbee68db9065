"""Speech: clips at the model's own rate, cut into windows.

Windows of different lengths never share a batch: in these models padding would reach the measured states, through group norms and
positional convolutions.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from isoscope.core.errors import IsoscopeError
from isoscope.core.source import Clip
from isoscope.models.loading.chunk import Chunk, ModelInput
from isoscope.models.loading.config_limits import require_count
from isoscope.models.loading.family import LoadedModel
from isoscope.models.loading.model_errors import CANNOT_RUN, model_errors_as_user_errors
from isoscope.models.loading.readers.batching import plain_positions
from isoscope.sources.speech import resample

SECONDS = 30
"""The longest window; a longer clip is cut."""
RATE = 16_000


def load_feature_extractor(folder: Any, config: Any, source: dict[str, Any]) -> Any:
    """Load the feature extractor next to the weights; without one, use its published defaults."""
    from transformers import AutoFeatureExtractor, Wav2Vec2FeatureExtractor

    if (Path(folder) / "preprocessor_config.json").is_file():
        return AutoFeatureExtractor.from_pretrained(folder, **source)
    return Wav2Vec2FeatureExtractor(do_normalize=True, return_attention_mask=False)


class WaveReader:
    """Windows of samples for models that read the wave itself."""

    unit = "frames"
    pads = False
    special_tokens = ""

    def __init__(self, model: LoadedModel, seq_len: int | None) -> None:
        self.model = model
        self.rate = require_count(getattr(model.processor, "sampling_rate", None) or RATE, "sampling_rate", model.reference.spec)
        self.longest = SECONDS * self.rate
        self.seq_len = seq_len or self._count_frames(self.longest)
        if seq_len is not None:
            self.longest = max(n for n in self._window_lengths() if self._count_frames(n) <= seq_len)

    def _window_lengths(self) -> range:
        """Lengths in samples from the shortest window to the longest, four steps per frame."""
        step = max(self.longest // max(self._count_frames(self.longest), 1), 1)
        return range(self._shortest_window(), self.longest + 1, max(step // 4, 1))

    def _count_frames(self, samples: int) -> int:
        with model_errors_as_user_errors(self.model.reference, CANNOT_RUN):
            frames = self.model.base._get_feat_extract_output_lengths(torch.tensor(samples))
        return int(frames)

    def _shortest_window(self) -> int:
        """The fewest samples that give a frame, by bisection."""
        low, high = 0, self.rate
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._count_frames(middle) >= 1 else (middle, high)
        return high

    def chunks(self, content: Clip) -> list[Chunk]:
        """Cut a clip into windows of at most half a minute; an end too short for a frame is left out."""
        wave = np.asarray(resample(content.samples, content.rate, self.rate), dtype=np.float32)
        chunks, start = [], 0
        for i in range(0, len(wave), self.longest):
            window = wave[i : i + self.longest]
            frames = self._count_frames(len(window)) if len(window) >= self._shortest_window() else 0
            if frames < 1:
                break
            chunks.append(Chunk(window, frames, start))
            start += frames
        return chunks

    def probe(self, count: int, size: int) -> list[Chunk]:
        """Windows of noise."""
        noise = np.random.default_rng(0).standard_normal(self.longest if size >= self.seq_len else self.rate).astype(np.float32)
        return [Chunk(noise, self._count_frames(len(noise))) for _ in range(count)]

    def feed(self, chunks: list[Chunk]) -> ModelInput:
        """Samples as the feature extractor leaves them; every frame counts."""
        if len({len(chunk.data) for chunk in chunks}) > 1:
            raise IsoscopeError("Windows of different lengths cannot share a batch.")
        with model_errors_as_user_errors(self.model.reference, CANNOT_RUN):
            prepared = self.model.processor([chunk.data for chunk in chunks], sampling_rate=self.rate, return_tensors="pt")
            samples = prepared["input_values"]
        return ModelInput({"input_values": samples.to(self.model.device, self.model.base.dtype)}, plain_positions(chunks))
