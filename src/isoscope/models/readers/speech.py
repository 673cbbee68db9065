"""Speech: clips at the model's own rate, cut into windows. Windows of different lengths never share a batch: in these models
padding would reach what is measured (group norms, positional convolutions)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from isoscope.core.errors import IsoscopeError
from isoscope.core.source import Clip
from isoscope.models.model_errors import CANNOT_RUN, model_errors_as_user_errors, whole_number
from isoscope.models.piece import Fed, Piece, Positions
from isoscope.sources.speech import resample

if TYPE_CHECKING:
    from isoscope.models.load import LoadedModel

SECONDS = 30
"""The longest window; a longer clip is cut."""
RATE = 16_000


def feature_extractor(folder: Any, config: Any, source: dict[str, Any]) -> Any:
    """What normalises clips, from the file beside the weights; its published defaults where there is none."""
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
        self.rate = whole_number(getattr(model.processor, "sampling_rate", None) or RATE, "sampling_rate", model.reference.spec)
        self.longest = SECONDS * self.rate
        self.seq_len = seq_len or self._frames(self.longest)
        if seq_len is not None:
            self.longest = max(n for n in self._lengths() if self._frames(n) <= seq_len)

    def _lengths(self) -> range:
        """The lengths in samples that a window of so many frames may have."""
        step = max(self.longest // max(self._frames(self.longest), 1), 1)
        return range(self._shortest(), self.longest + 1, max(step // 4, 1))

    def _frames(self, samples: int) -> int:
        with model_errors_as_user_errors(self.model.reference, CANNOT_RUN):
            found = self.model.base._get_feat_extract_output_lengths(torch.tensor(samples))
        return int(found)

    def _shortest(self) -> int:
        """The fewest samples that give a frame."""
        low, high = 0, self.rate
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._frames(middle) >= 1 else (middle, high)
        return high

    def pieces(self, content: Clip) -> list[Piece]:
        """Windows of at most half a minute; an end too short for a frame is left out."""
        wave = resample(content.samples, content.rate, self.rate)
        found, start = [], 0
        for i in range(0, len(wave), self.longest):
            window = wave[i : i + self.longest]
            frames = self._frames(len(window)) if len(window) >= self._shortest() else 0
            if frames < 1:
                break
            found.append(Piece(np.asarray(window, dtype=np.float32), frames, start))
            start += frames
        return found

    def probe(self, count: int, size: int) -> list[Piece]:
        """Windows of noise."""
        noise = np.random.default_rng(0).standard_normal(self.longest if size >= self.seq_len else self.rate).astype(np.float32)
        return [Piece(noise, self._frames(len(noise))) for _ in range(count)]

    def feed(self, pieces: list[Piece]) -> Fed:
        """Samples as the feature extractor leaves them: every frame counts."""
        if len({len(piece.data) for piece in pieces}) > 1:
            raise IsoscopeError("Windows of different lengths cannot share a batch.")
        with model_errors_as_user_errors(self.model.reference, CANNOT_RUN):
            prepared = self.model.processor([piece.data for piece in pieces], sampling_rate=self.rate, return_tensors="pt")
            samples = prepared["input_values"]
        values = samples.to(self.model.device, self.model.base.dtype)
        return Fed(
            {"input_values": values},
            lambda stack, t: [Positions(np.zeros(t, dtype=bool), start=piece.start) for piece in pieces],
        )
